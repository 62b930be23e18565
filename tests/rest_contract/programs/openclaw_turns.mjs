/** What the plugin makes of the cases that all providers share. Arguments: the plugin's turns.js, the cases. */

import { readFileSync } from "node:fs";

const [, , turns, cases] = process.argv;
const { harmless, recalled, rowsOf, withoutRecalled } = await import(turns);
const given = JSON.parse(readFileSync(cases, "utf8"));
const told = ({ memories, least }) => recalled(memories, least) ?? null;
console.log(
  JSON.stringify({
    without_recalled: given.without_recalled.map(([text]) => withoutRecalled(text)),
    harmless: given.harmless.map(([text]) => harmless(text)),
    recalled: given.recalled.map(told),
    long: told({ memories: [{ content: given.long.word.repeat(given.long.times) }], least: 0 }),
    rows: given.rows.map(({ said, project }) => rowsOf("key1", "s-1", said, project)),
  }),
);
