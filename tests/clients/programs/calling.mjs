// What the programs share: jobs on stdin, arguments as a client's model would fill them in, reports on stdout.

/** Do the jobs that stand on stdin, one after the other, print their reports, and end: some transports stay open. */
export async function run(program) {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  const reports = [];
  for (const job of JSON.parse(text)) {
    reports.push({ failed: {}, strict: [], protocol: "", ...(await program(job)) });
  }
  process.stdout.write(`${JSON.stringify(reports)}\n`, () => process.exit(0));
}

/** Return the arguments; if `how` is "null", with null for all the other parameters, as some models give. */
export function filled(schema, given, how) {
  const rest = Object.keys(schema.properties ?? {}).filter((name) => !(name in given));
  return how === "null" ? { ...Object.fromEntries(rest.map((name) => [name, null])), ...given } : given;
}

/** Return an answer as the client's model reads it. */
export function answer(result) {
  return { refused: result.isError === true, body: JSON.parse(result.content[0].text) };
}
