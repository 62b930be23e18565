"""`python -m engramq`: the `engramq` command, for processes that must not depend on where its script is installed."""

from engramq.deploy.cli import main

raise SystemExit(main())
