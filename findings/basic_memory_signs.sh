#!/bin/sh
# basic-memory 0.24.1: a note "C++" is refused as there already, because a note "C" is.
#
# Load: three notes in one folder, written by `basic-memory tool write-note`: C, C++ and C#. Needs Python 3.12 or later.
# Expected: three notes, since titles and files differ (C.md, C++.md, C#.md); at least an error that names C.
# Real: the first is written. The others end in NOTE_ALREADY_EXISTS, for a file that is not there: permalinks drop signs,
# so all three are `langs/c`. A file that is made by hand gets `langs/c-1`, in the order in which files are found.
#
# Output seen on 2026-11-30:
#   C: created; C++: NOTE_ALREADY_EXISTS; C#: NOTE_ALREADY_EXISTS; files: C.md
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet basic-memory==0.24.1
export HOME="$folder" BASIC_MEMORY_HOME="$folder/notes"
mkdir "$folder/notes"
seen=
for title in C C++ 'C#'; do
	told=$(echo "About $title" | "$folder/venv/bin/basic-memory" tool write-note --title "$title" --folder langs 2>&1 || :)
	case $told in
	*NOTE_ALREADY_EXISTS*) seen="$seen$title: NOTE_ALREADY_EXISTS; " ;;
	*) seen="$seen$title: created; " ;;
	esac
done
seen="${seen}files: $(ls "$folder/notes/langs" | tr '\n' ' ' | sed 's/ $//')"
echo "$seen"
[ "$seen" = "C: created; C++: NOTE_ALREADY_EXISTS; C#: NOTE_ALREADY_EXISTS; files: C.md" ]
