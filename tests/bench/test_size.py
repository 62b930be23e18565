"""The figures of `bench.size`, from a source whose size is known."""

from bench.size import Size, python_files

SOURCE = '''"""A module."""

import os


def first() -> str:
    return os.sep


class Thing:
    async def second(self) -> None:
        pass
'''


def test_modules_functions_and_imports_are_counted() -> None:
    size = Size()
    size.add(SOURCE)
    size.add("\n".join("x = 1" for _ in range(100)))
    figures = size.figures()
    assert (figures["files"], figures["lines"], figures["longest_module"]) == (2, 112, 100)
    assert figures["small_modules"] == 1
    assert (figures["functions"], figures["median_function"], figures["longest_function"]) == (2, 2, 2)


def test_the_product_is_found_once_though_links_lead_to_it() -> None:
    files = python_files("workers", "engramq")
    assert len({file.resolve() for file in files}) == len(files) > 100
