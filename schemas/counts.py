"""Numbers of things in words: "1 memory", "2 memories"."""


def count_of(number: int, one: str, several: str = "") -> str:
    """Return so many of a thing; without a plural of its own the word gets an s."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def memories(number: int) -> str:
    """Return so many memories."""
    return count_of(number, "memory", "memories")
