/**
 * Files as Anthropic's memory tool (`memory_20250818`) shows and edits them: paths and texts, without a server.
 *
 * As client/files.py has them; the sentences for the model are the ones that the tool's documentation gives.
 */

import type { components } from "./schema.js";

type Memory = components["schemas"]["Memory"];

export const ROOT = "/memories";
const METADATA = "memory_file"; // what a memory says in its metadata of the file that it is
const LINES_MAX = 999_999;
const LISTED_MAX = 1_000; // files of one listing
const PATH_CHARS = 200; // so that path and version make up an external_id
const LEVELS = 2;
const AROUND = 2; // lines shown before and after a change
const UNSAFE = /\\|[\x00-\x1f\x7f]|%(?:2e|2f|5c|00)/i; // also as URLs write them

/** A command that was not carried out; the message is for the model. */
export class FileProblem extends Error {
  override name = "FileProblem";
}

/** A file as one memory keeps it. Its versions are numbered from 1; `isWhole`: nothing of the text is left out. */
export interface File {
  readonly memoryId: string;
  readonly path: string;
  readonly version: number;
  readonly text: string;
  readonly size: number;
  readonly isWhole: boolean;
  readonly visibility: "private" | "shared";
}

/** A path in the one way in which it is written; one that leaves /memories is a FileProblem. */
export function cleanPath(given: string): string {
  if (given !== ROOT && !given.startsWith(`${ROOT}/`)) {
    throw new FileProblem(`Error: Path must start with ${ROOT}, got: ${given}`);
  }
  const parts = given.split("/").filter(Boolean);
  if (UNSAFE.test(given) || parts.some((part) => part === "." || part === "..")) {
    throw new FileProblem(`Error: Path ${given} would escape ${ROOT} directory`);
  }
  const path = `/${parts.join("/")}`;
  const letters = [...path];
  if (letters.length > PATH_CHARS) {
    const begin = letters.slice(0, PATH_CHARS).join("");
    throw new FileProblem(`Error: Path ${begin}... is too long: at most ${PATH_CHARS} characters`);
  }
  return path;
}

/** The folders that a path is in, the outermost first. */
export function foldersOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(2).map((_, depth) => parts.slice(0, depth + 2).join("/"));
}

/** The first folder's name: /memories/shop/notes.md is in the project shop, /memories/notes.md in none. */
export function projectOf(path: string): string | undefined {
  return foldersOf(path)[1]?.split("/").at(-1);
}

/** What a memory says that a file becomes: found by its path, and by each folder with a / at its end. */
export function saidOf(path: string, version: number, text: string) {
  const isBlank = !/\S/.test(text);
  const folders = foldersOf(path);
  const about = { path, version, size: new TextEncoder().encode(text).length, ...(isBlank ? { text } : {}) };
  return {
    content: isBlank ? path : text,
    tags: [path, ...folders.map((folder) => `${folder}/`)],
    thread: folders.at(-1),
    metadata: { [METADATA]: about },
  };
}

/** The file that a memory is; undefined for one that is none, or that others have made to look like one. */
export function fileOf(memory: Memory): File | undefined {
  const about = memory.metadata?.[METADATA];
  if (typeof about !== "object" || about === null) return undefined;
  const { path, version, size, text } = about as Record<string, unknown>;
  if (typeof path !== "string" || !Number.isInteger(version) || !Number.isInteger(size)) return undefined;
  if (!["string", "undefined"].includes(typeof text) || !memory.tags.includes(path)) return undefined;
  return {
    memoryId: memory.id,
    path,
    version: version as number,
    text: typeof text === "string" ? text : memory.content,
    size: size as number,
    isWhole: !memory.truncated,
    visibility: memory.visibility ?? "shared",
  };
}

/**
 * The files that memories are, the version that counts last: the newest, but one's own private file before a shared one
 * of the same path. Else whoever plants a shared one would get what its owner writes next.
 */
export function inOrder(memories: readonly Memory[]): File[] {
  const isPrivate = (file: File) => Number(file.visibility === "private");
  const files = memories.map(fileOf).filter((file) => file !== undefined);
  return files.sort((one, other) => isPrivate(one) - isPrivate(other) || one.version - other.version);
}

/** The versions of a file that count: of one's own private ones or else of the shared ones, in their order. */
export function thatCount(files: readonly File[]): File[] {
  return files.filter((file) => file.visibility === files.at(-1)?.visibility);
}

/** Each file that is among memories in the version that counts, in the order of their paths. */
export function newest(memories: readonly Memory[]): File[] {
  const files = new Map(inOrder(memories).map((file) => [file.path, file]));
  const key = (file: File) => file.path.replaceAll("/", "\0");
  return [...files.values()].sort((one, other) => (key(one) < key(other) ? -1 : 1));
}

/** The text of a file, or the lines of a range, with their numbers. */
export function shown(file: File, viewRange: readonly number[] | undefined): string {
  const lines = file.text.split("\n");
  if (lines.length > LINES_MAX) {
    throw new FileProblem(`File ${file.path} exceeds maximum line limit of 999,999 lines.`);
  }
  const [first = 1, last = -1] = viewRange ?? [];
  const end = last === -1 ? lines.length : last;
  if (first < 1 || first > end || first > lines.length) {
    throw new FileProblem(
      `Error: Invalid \`view_range\` parameter: [${first}, ${last}]. ` +
        `It should be within the range of lines of the file: [1, ${lines.length}]`,
    );
  }
  return `Here's the content of ${file.path} with line numbers:\n${numbered(lines, first, end)}`;
}

/** A folder's files and folders with their sizes, two levels deep; `files`: all that are below it. */
export function listed(path: string, files: readonly File[]): string {
  const sizes = new Map([[path, files.reduce((sum, file) => sum + file.size, 0)]]);
  for (const file of files) {
    const below = file.path.slice(path.length + 1).split("/");
    if (below.some((part) => part.startsWith(".") || part === "node_modules")) continue;
    for (let depth = 1; depth < Math.min(below.length, LEVELS + 1); depth++) {
      const folder = `${path}/${below.slice(0, depth).join("/")}/`;
      sizes.set(folder, (sizes.get(folder) ?? 0) + file.size);
    }
    if (below.length <= LEVELS) sizes.set(file.path, file.size);
  }
  const lines = [...sizes].map(([name, size]) => `${sizeIn(size)}\t${name}`);
  const leftOut = lines.length - LISTED_MAX;
  if (leftOut > 0) lines.splice(LISTED_MAX, leftOut, `... and ${leftOut} more: view a folder`);
  const header = `Here're the files and directories up to 2 levels deep in ${path}, excluding hidden items and node_modules:`;
  return [header, ...lines].join("\n");
}

/** A text with the one occurrence of `old` replaced; a FileProblem where there is not exactly one. */
export function replaced(path: string, text: string, old: string, by: string): string {
  const places: number[] = [];
  for (let at = old ? text.indexOf(old) : -1; at >= 0; at = text.indexOf(old, at + 1)) places.push(at);
  const [place] = places;
  if (place === undefined) {
    throw new FileProblem(`No replacement was performed, old_str \`${old}\` did not appear verbatim in ${path}.`);
  }
  if (places.length > 1) {
    const lines = places.map((at) => text.slice(0, at).split("\n").length).join(", ");
    throw new FileProblem(
      `No replacement was performed. Multiple occurrences of old_str \`${old}\` in lines: ${lines}. ` +
        "Please ensure it is unique",
    );
  }
  return text.slice(0, place) + by + text.slice(place + old.length);
}

/** The lines around the first difference between a text and what it was before, with their numbers. */
export function around(text: string, before: string): string {
  const [lines, old] = [text.split("\n"), before.split("\n")];
  const shared = Math.min(lines.length, old.length);
  const different = lines.slice(0, shared).findIndex((line, at) => line !== old[at]);
  const changed = different < 0 ? shared - 1 : different;
  return numbered(lines, Math.max(1, changed + 1 - AROUND), Math.min(lines.length, changed + 1 + AROUND));
}

/** A text with lines inserted after line `at`, 0 for its beginning; a FileProblem for no such line. */
export function inserted(text: string, at: number, addition: string): string {
  const lines = text ? text.replace(/\n$/, "").split("\n") : [];
  if (at < 0 || at > lines.length) {
    throw new FileProblem(
      `Error: Invalid \`insert_line\` parameter: ${at}. ` +
        `It should be within the range of lines of the file: [0, ${lines.length}]`,
    );
  }
  return [...lines.slice(0, at), addition.replace(/\n$/, ""), ...lines.slice(at), ""].join("\n");
}

function numbered(lines: readonly string[], first: number, last: number): string {
  return lines
    .slice(first - 1, last)
    .map((line, at) => `${String(first + at).padStart(6)}\t${line}`)
    .join("\n");
}

function sizeIn(size: number): string {
  let exponent = 0;
  while (exponent < 3 && size >= 1024 ** (exponent + 1)) exponent++;
  return (size / 1024 ** exponent).toFixed(1).replace(/\.0$/, "") + "BKMG"[exponent];
}
