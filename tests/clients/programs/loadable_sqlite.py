"""A plugin of pytest: where this Python's sqlite3 loads no extensions, one that does stands in its place.

SqliteStore of LangGraph compares vectors by an extension, and not every build of Python allows such.
"""

import sqlite3
import sys
from importlib import import_module

if not hasattr(sqlite3.Connection, "enable_load_extension"):
    sys.modules["sqlite3"] = import_module("pysqlite3")
