"""What a host of the bundle starts: `engramq stdio`."""

from engramq.deploy.cli import main

raise SystemExit(main(["stdio"]))
