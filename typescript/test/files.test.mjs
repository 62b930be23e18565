/** Paths, listings, numbered lines and edits of the memory tool, as tests/client/test_files.py has them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const files = await import(pathToFileURL(`${process.env.ENGRAMQ_BUILT}/files.js`).href);

const NOTES = "/memories/notes.txt";
const aFile = (path, text = "") => ({ memoryId: "m", path, version: 1, text, size: text.length, isWhole: true });
const lines = (text) => text.split("\n");

test("a path that leaves the folder is refused", () => {
  const bad = ["", "/etc/passwd", "/memoriesque", "memories/a", "../memories/a", "/memories/../etc/passwd"];
  bad.push("/memories/a/..", "/memories/./a", "/memories/%2e%2e/secret", "/memories/%2E%2E%2Fsecret");
  bad.push("/memories/..\\secret", "/memories/a\\b", "/memories/a\x00b", "/memories/a\nb", `/memories/${"a".repeat(300)}`);
  for (const path of bad) assert.throws(() => files.cleanPath(path), /FileProblem: Error: Path /, path);
});

test("a path is written in one way", () => {
  const cleaned = ["/memories/", "/memories//a/", "/memories/a..b/..c"].map(files.cleanPath);
  assert.deepEqual(cleaned, ["/memories", "/memories/a", "/memories/a..b/..c"]);
});

test("a file is shown with line numbers, and lines that are not there are refused", () => {
  const text = `Hello World\nThis is line two\n${"\n".repeat(7)}Line ten`;
  assert.equal(lines(files.shown(aFile(NOTES, text))).at(-1), "    10\tLine ten");
  assert.deepEqual(lines(files.shown(aFile(NOTES, text), [2, 3])).slice(1), ["     2\tThis is line two", "     3\t"]);
  for (const range of [[0, 1], [2, 1], [4, -1], [-3, 2]]) {
    assert.throws(() => files.shown(aFile(NOTES, "a\nb\nc"), range), /`view_range` .* lines of the file: \[1, 3\]/);
  }
  assert.throws(() => files.shown(aFile(NOTES, "\n".repeat(999_999))), /exceeds maximum line limit of 999,999 lines/);
});

test("a folder is listed two levels deep with sizes, and has an end", () => {
  const there = [
    aFile("/memories/.hidden", "x"),
    aFile("/memories/customers/ana/notes.md", "x".repeat(5632)),
    aFile("/memories/customers/list.md", "x".repeat(1024)),
    aFile("/memories/node_modules/a.js", "x"),
    aFile(NOTES, "four"),
  ];
  assert.deepEqual(lines(files.listed("/memories", there)).slice(1), [
    "6.5K\t/memories",
    "6.5K\t/memories/customers/",
    "5.5K\t/memories/customers/ana/",
    "1K\t/memories/customers/list.md",
    "4B\t/memories/notes.txt",
  ]);
  const many = Array.from({ length: 2_000 }, (_, at) => aFile(`/memories/${at}`));
  assert.equal(lines(files.listed("/memories", many)).at(-1), "... and 1001 more: view a folder");
});

test("a text is replaced where it stands once, as it is written", () => {
  assert.equal(files.replaced(NOTES, "costs: blue\n", "blue", "$& $1"), "costs: $& $1\n");
  for (const old of ["red", ""]) assert.throws(() => files.replaced(NOTES, "a\nb", old, "x"), /did not appear verbatim/);
  assert.throws(() => files.replaced(NOTES, "a\nb a\nc", "a", "x"), /old_str `a` in lines: 1, 2\. Please/);
});

test("lines are inserted after a line", () => {
  const cases = [["a\nb\n", 0, "x\na\nb\n"], ["a\nb\n", 1, "a\nx\nb\n"], ["a\nb", 2, "a\nb\nx\n"]];
  cases.push(["", 0, "x\n"], ["\n", 1, "\nx\n"]);
  for (const [text, line, expected] of cases) {
    assert.equal(files.inserted(text, line, "x\n"), expected);
    assert.equal(files.inserted(text, line, "x"), expected);
  }
  for (const line of [-1, 3]) assert.throws(() => files.inserted("a\nb\n", line, "x"), /lines of the file: \[0, 2\]/);
});

test("a change is shown with two lines around it", () => {
  const before = [..."abcdefg"].join("\n");
  const shown = ["     2\tb", "     3\tc", "     4\tD", "     5\te", "     6\tf"];
  assert.deepEqual(lines(files.around(before.replace("d", "D"), before)), shown);
  assert.equal(files.around("a", "a\nb"), "     1\ta");
  assert.equal(files.around("a\nb", "a"), "     1\ta\n     2\tb");
});
