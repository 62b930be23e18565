"""Make the weights of the judge again, and say how good they are: `python -m tools.relevance --data FOLDER`.

FOLDER has the development halves of LoCoMo, BEAM and REALTALK, as bench.retrieval describes them, in
`locomo.dev.memories.jsonl`, `locomo.dev.queries.jsonl` and so on. What was found is kept in --cache, so that learning
again takes some minutes. Prints JSON lines: of whole worlds that were held out, how far the chances are true (expected
calibration error), and what bounds on them lose and leave out. The same data gives the same weights.
"""

import json
from pathlib import Path

import click
import msgspec

from engramq.workers.search.relevance import WEIGHTS
from tools.relevance.collect import collect, read
from tools.relevance.judging import held_out, report
from tools.relevance.learning import learn
from tools.relevance.samples import replies
from tools.relevance.worlds import worlds


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option(
    "--cache", type=click.Path(file_okay=False, path_type=Path), required=True, help="Where findings are kept."
)
@click.option("--figures/--no-figures", default=True, help="Print how good judges are of what they have not seen.")
@click.option("--check", is_flag=True, help="Say whether the same weights come out; write nothing.")
def main(*, data: Path, cache: Path, figures: bool, check: bool) -> None:
    """Learn from all that was found, and write relevance.json."""
    asked = worlds(data)
    collect(asked, cache)
    found = read(asked, cache)
    by_kind = {by_words: replies(found, by_words=by_words) for by_words in (False, True)}
    if figures:
        for by_words, several in held_out(by_kind).items():
            for line in report(several, by_words=by_words):
                click.echo(json.dumps(line))
    net = learn([*by_kind[False], *by_kind[True]])
    text = msgspec.json.format(msgspec.json.encode(net, enc_hook=lambda array: array.tolist()), indent=0)
    same = WEIGHTS.exists() and WEIGHTS.read_bytes() == text
    if not check:
        WEIGHTS.write_bytes(text)
    click.echo(json.dumps({"weights": WEIGHTS.name, "bytes": len(text), "written": not check, "same": same}))


if __name__ == "__main__":
    main()
