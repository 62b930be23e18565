/** Keeps a text in a file of the memory tool, or prints a file. Arguments: keep NAME TEXT, or read NAME. */

import { Memory } from "engramq";
import { MemoryFiles } from "engramq/anthropic";

const [, , command, name, text] = process.argv;
const files = new MemoryFiles(new Memory());
const path = `/memories/${name}`;
const seen = await files.view({ path }).catch(() => undefined);
if (command === "read") console.log(seen ?? "");
else if (seen === undefined) await files.create({ path, file_text: `${text}\n` });
else await files.insert({ path, insert_line: 0, insert_text: text });
