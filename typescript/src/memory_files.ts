/**
 * The commands of Anthropic's memory tool as calls of a client: files are memories, and every edit is a new one.
 *
 * As client/file_commands.py has them. Version 3 of /memories/notes.md has the external_id "/memories/notes.md#3",
 * which is used once: of two writers that read the same version the second is refused, reads anew, and edits what the
 * first has written.
 */

import { Refused } from "./failures.js";
import * as files from "./files.js";
import { cleanPath, type File, FileProblem, ROOT } from "./files.js";
import type { Memory } from "./memory.js";
import type { Options } from "./operation.js";
import type { components } from "./schema.js";

type Said = components["schemas"];
type Receipt = Said["Stored"] | Said["Superseded"] | Said["Forgotten"];

const TRIES = 8; // of an edit that others are ahead of
const PAGE = 100;
// Why a version is not hidden behind a later one: others moved or archived it, or who wrote the later one is untrusted.
const STAYS = new Set(["already_superseded", "memory_not_active", "untrusted_supersedes"]);

type Outcome = "replaced" | "stays" | "seen by others";

/** Which memories are files, and who is told of what was written. */
export interface MemoryFilesOptions {
  /** The project of all files; without it a file is in the project that its first folder names. */
  project?: string;
  /** Show what is untrusted too. */
  includeUntrusted?: boolean;
  /** Gets the reply of every write, with the command_id under which the audit knows it. */
  onReceipt?: (reply: Receipt) => void;
}

/** Memories as files, a method for each command of the tool; what each resolves to is for the model. */
export class MemoryFiles {
  readonly #memory: Memory;
  readonly #options: MemoryFilesOptions;

  constructor(memory: Memory, options: MemoryFilesOptions = {}) {
    this.#memory = memory;
    this.#options = options;
  }

  /** Show a file, or what is in a folder. */
  async view(command: { path: string; view_range?: readonly number[] }): Promise<string> {
    const path = cleanPath(command.path);
    const file = path === ROOT ? undefined : (await this.#versions(path)).at(-1);
    if (file) return files.shown(await this.#whole(file), command.view_range);
    const below = await this.#below(path);
    if (!below.length && path !== ROOT) throw noPath(path, "The");
    return files.listed(path, below);
  }

  /** Make a new file. */
  async create(command: { path: string; file_text: string }): Promise<string> {
    const path = cleanPath(command.path);
    const isThere = new FileProblem(`Error: File ${path} already exists`);
    if (await this.#isThere(path)) throw isThere;
    await this.#needFolders(path);
    const stored = await this.#stored(path, command.file_text, 0);
    if (!stored) throw isThere;
    return `File created successfully at: ${path}${this.#remarks(stored, command.file_text)}`;
  }

  /** Replace the one occurrence of a text. */
  async str_replace(command: { path: string; old_str: string; new_str: string }): Promise<string> {
    const path = cleanPath(command.path);
    const edit = (text: string) => files.replaced(path, text, command.old_str, command.new_str);
    const [before, text, remarks] = await this.#edited(path, edit, noPath(path, "Error: The"));
    const said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):";
    return `${said}\n${files.around(text, before)}${remarks}`;
  }

  /** Insert lines after a line. */
  async insert(command: { path: string; insert_line: number; insert_text: string }): Promise<string> {
    const path = cleanPath(command.path);
    const edit = (text: string) => files.inserted(text, command.insert_line, command.insert_text);
    const [, , remarks] = await this.#edited(path, edit, missing(path));
    return `The file ${path} has been edited.${remarks}`;
  }

  /** Archive a file, or all that is in a folder: restore_memory brings each back. */
  async delete(command: { path: string }): Promise<string> {
    const path = cleanPath(command.path);
    if (path === ROOT) throw new FileProblem(`Error: Cannot delete the ${ROOT} directory itself`);
    if (!(await this.#archived(path))) throw missing(path);
    return `Successfully deleted ${path}`;
  }

  /** Move a file, or a folder with all that is in it. */
  async rename(command: { old_path: string; new_path: string }): Promise<string> {
    const [old, target] = [cleanPath(command.old_path), cleanPath(command.new_path)];
    if (old === ROOT) throw new FileProblem(`Error: Cannot rename the ${ROOT} directory itself`);
    if (`${target}/`.startsWith(`${old}/`) && target !== old) {
      throw new FileProblem(`Error: The destination ${target} is inside ${old}`);
    }
    const isFile = (await this.#versions(old)).length > 0;
    const moved = isFile ? [old] : (await this.#below(old)).map((file) => file.path);
    if (!moved.length) throw missing(old);
    if (await this.#isThere(target)) throw new FileProblem(`Error: The destination ${target} already exists`);
    const pairs = moved.map((path) => [path, cleanPath(target + path.slice(old.length))] as const);
    await this.#needFolders(target);
    for (const [path, newPath] of pairs) await this.#moved(path, newPath);
    return `Successfully renamed ${old} to ${target}`;
  }

  /** Archive all files. */
  async clear(): Promise<string> {
    await this.#archived(ROOT);
    return "All memory cleared";
  }

  /** Write the next version of a file; its text before and after, and what there is to say besides. */
  async #edited(path: string, edit: (text: string) => string, gone: FileProblem): Promise<[string, string, string]> {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const versions = await this.#versions(path);
      const last = versions.at(-1);
      if (!last) throw gone;
      const before = (await this.#whole(last)).text;
      const text = edit(before);
      const stored = await this.#stored(path, text, last.version, last.visibility);
      if (!stored) continue;
      if ((await this.#allReplaced(versions, stored)) === "seen by others") continue;
      return [before, text, this.#remarks(stored, text)];
    }
    throw contended(path);
  }

  async #moved(path: string, target: string): Promise<void> {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const versions = await this.#versions(path);
      const last = versions.at(-1);
      if (!last) throw missing(path);
      const stored = await this.#stored(target, (await this.#whole(last)).text, 0, last.visibility);
      if (!stored) throw new FileProblem(`Error: The destination ${target} already exists`);
      const outcome = await this.#allReplaced(versions, stored);
      if (outcome === "replaced") return;
      if (outcome === "seen by others") continue;
      const reason = `${path} was edited while it was moved to ${target}`;
      this.#receipt(await this.#memory.forget(stored.id, { reason }));
    }
    throw contended(path);
  }

  /** Archive what is at a path and below it, and what somebody writes there meanwhile; of how many. */
  async #archived(path: string): Promise<number> {
    const ended = new Map<string, File["visibility"]>();
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const versions = path === ROOT ? [] : await this.#versions(path);
      const found = versions.length ? versions : await this.#below(path);
      // What everybody has beside one's own private file of that name stays.
      const going = found.filter((file) => (ended.get(file.path) ?? file.visibility) === file.visibility);
      if (!going.length) return ended.size;
      for (const file of going) {
        const reason = `the memory tool deleted ${file.path}`;
        this.#receipt(await this.#memory.forget(file.memoryId, { reason }));
        ended.set(file.path, file.visibility);
      }
    }
    throw contended(path);
  }

  /**
   * Store what follows a version, for who saw that; its memory, or undefined when others were ahead of it.
   * Version 0 is of a file that is not there; it may have been, and its numbers are not given again.
   */
  async #stored(
    path: string,
    text: string,
    after: number,
    visibility?: File["visibility"],
  ): Promise<Said["Memory"] | undefined> {
    const own = this.#options.project;
    const project = own ?? files.projectOf(path);
    for (let version = after + 1, attempt = 0; attempt < TRIES; attempt++, version++) {
      const { content, ...said } = files.saidOf(path, version, text);
      const external_id = own === undefined ? `${path}#${version}` : `${own}:${path}#${version}`;
      try {
        const reply = await this.#memory.store(content, { ...said, external_id, project, visibility });
        this.#receipt(reply);
        return reply.stored;
      } catch (problem) {
        if (!(problem instanceof Refused) || problem.code !== "external_id_taken") throw problem;
      }
      const now = await this.#versions(path);
      if ((now.at(-1)?.version ?? 0) >= version) return undefined;
      const states: Options<"list_recent_memories", never>["states"] = ["active", "pending", "archived"];
      const history = await this.#versions(path, { include_superseded: true, states });
      version = Math.max(version, ...history.map((file) => file.version));
    }
    return undefined;
  }

  /** Hide versions behind a later one, the newest last; what became of that one. */
  async #allReplaced(versions: readonly File[], by: Said["Memory"]): Promise<Outcome> {
    let outcome: Outcome = "stays";
    for (const version of versions) {
      outcome = await this.#replaced(version, by);
      if (outcome === "seen by others") return outcome;
    }
    return outcome;
  }

  /** Hide a version behind a later one. Where one of the two is private by now, the later one is erased again. */
  async #replaced(file: File, by: Said["Memory"]): Promise<Outcome> {
    try {
      this.#receipt(await this.#memory.supersede(file.memoryId, by.id));
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      if (problem.code === "forbidden") {
        const reason = `who sees ${file.path} was changed meanwhile`;
        this.#receipt(await this.#memory.forget(by.id, { erase: true, reason }));
        return "seen by others";
      }
      if (!STAYS.has(problem.code)) throw problem;
      return "stays";
    }
    return "replaced";
  }

  /**
   * The versions of a file that count, the newest last. All pages are read, or so many shared ones could be planted that
   * none shows the private one. A shared file that is called as a folder with private files is none: it would hide them.
   */
  async #versions(path: string, options?: Options<"list_recent_memories", never>): Promise<File[]> {
    const memories = await this.#all({ tags: [path], ...options });
    const versions = files.thatCount(files.inOrder(memories).filter((file) => file.path === path));
    const last = versions.at(-1);
    if (!last || options || last.visibility === "private") return versions;
    return (await this.#below(path)).some((file) => file.visibility === "private") ? [] : versions;
  }

  async #below(path: string): Promise<File[]> {
    const memories = await this.#all({ tags: [`${path}/`] });
    return files.newest(memories).filter((file) => file.path.startsWith(`${path}/`));
  }

  async #all(options: Options<"list_recent_memories", never>): Promise<Said["Memory"][]> {
    const memories: Said["Memory"][] = [];
    const among = { limit: PAGE, ...this.#among, ...options };
    for await (const memory of this.#memory.eachRecent(among)) memories.push(memory);
    return memories;
  }

  async #isThere(path: string): Promise<boolean> {
    if (path === ROOT || (await this.#versions(path)).length) return true;
    const page = await this.#memory.recent({ tags: [`${path}/`], limit: 1, ...this.#among });
    return page.memories.length > 0;
  }

  async #needFolders(path: string): Promise<void> {
    for (const folder of files.foldersOf(path).slice(1)) {
      if ((await this.#versions(folder)).length) {
        throw new FileProblem(`Error: ${folder} is a file, not a directory`);
      }
    }
  }

  /** A file with all of its text, since an edit would lose what a list leaves out. */
  async #whole(file: File): Promise<File> {
    if (file.isWhole) return file;
    const { memory } = await this.#memory.get(file.memoryId, { include_untrusted: this.#options.includeUntrusted });
    const whole = memory ? files.fileOf(memory) : undefined;
    if (!whole?.isWhole) throw new FileProblem(`Error: ${file.path} cannot be read as a whole`);
    return whole;
  }

  get #among(): Options<"list_recent_memories", never> {
    const { project, includeUntrusted } = this.#options;
    const partitions: ("trusted" | "untrusted")[] = includeUntrusted ? ["trusted", "untrusted"] : ["trusted"];
    return { partitions, project: project ?? "*", project_only: project !== undefined };
  }

  /** What of a write is otherwise than the model expects, "" for nothing. */
  #remarks(stored: Said["Memory"], text: string): string {
    let remarks = "";
    if (stored.partition === "untrusted" && !this.#options.includeUntrusted) {
      remarks += "\nIt is kept apart as untrusted: no file shows it before somebody promotes it.";
    }
    if (text.trim() && stored.content !== text) remarks += "\nWords in it that looked like secrets were masked.";
    return remarks;
  }

  #receipt(reply: Receipt): void {
    this.#options.onReceipt?.(reply);
  }
}

function missing(path: string): FileProblem {
  return new FileProblem(`Error: The path ${path} does not exist`);
}

function noPath(path: string, begin: string): FileProblem {
  return new FileProblem(`${begin} path ${path} does not exist. Please provide a valid path.`);
}

function contended(path: string): FileProblem {
  return new FileProblem(`Error: ${path} is being edited by others. Please view it and try again.`);
}
