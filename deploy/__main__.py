"""`python -m deploy`: the `engramq` command, for processes that must not depend on where its script is installed."""

from deploy.cli import main

raise SystemExit(main())
