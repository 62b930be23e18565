/**
 * OpenClaw's side of a plugin, as release 2026.9.6 has it: it registers, then plays the events of a file, line by line.
 * Arguments: the plugin's index.js, its configuration as JSON, the events as JSON. Prints what each gave.
 */

const [, , plugin, config, events] = process.argv;
const hooks = new Map();
const tools = new Map();
const logged = [];
const log = (level) => (text) => logged.push(`${level}: ${text}`);
const { default: entry } = await import(plugin);
entry.register({
  pluginConfig: JSON.parse(config),
  logger: { info: log("info"), warn: log("warn"), error: log("error") },
  on: (name, handler) => hooks.set(name, [...(hooks.get(name) ?? []), handler]),
  registerTool: (tool, { name }) => tools.set(name, tool),
});

const gave = [];
for (const { hook, tool, event, context = {}, url } of JSON.parse(events)) {
  if (url) globalThis.fetch = redirected(url);
  else if (hook) for (const handler of hooks.get(hook) ?? []) gave.push((await handler(event, context)) ?? null);
  else {
    const made = typeof tools.get(tool) === "function" ? tools.get(tool)(context) : tools.get(tool);
    gave.push(made === null ? "no tool" : (await made.execute("call-1", event)).content[0].text);
  }
}
console.log(JSON.stringify({ gave, logged, kind: entry.kind, hooks: [...hooks.keys()], tools: [...tools.keys()] }));

/** A fetch that reaches another server than it is told: one that has come back, or that is away. */
function redirected(url) {
  const first = (globalThis.firstFetch ??= globalThis.fetch);
  return (address, init) => first(new URL(new URL(address).pathname, url), init);
}
