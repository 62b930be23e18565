/** What a call rejects with when it has no reply. */

/** A call without a reply; one of the classes below. */
export class EngramqFailure extends Error {
  override name = "EngramqFailure";
}

/** The server refused the call, and nothing has happened. */
export class Refused extends EngramqFailure {
  override name = "Refused";
  /** A word of the contract; "" when the server refused ahead of the operation, as for a bad token. */
  readonly code: string;
  /** What to do. */
  readonly recovery: string;
  /** Which parameter is meant. */
  readonly field: string | undefined;

  constructor(
    readonly httpStatus: number,
    readonly body: Readonly<Record<string, unknown>>,
  ) {
    const said = text(body["error"]) || `The server answered ${httpStatus}.`;
    const recovery = text(body["recovery"]);
    super(recovery ? `${said} ${recovery}` : said);
    this.code = text(body["code"]);
    this.recovery = recovery;
    this.field = text(body["field"]) || undefined;
  }
}

/**
 * No usable answer came within the time of a call, however often it was repeated.
 * A write may have been carried out: made again with `idempotencyKey`, it is not carried out twice.
 */
export class NotReached extends EngramqFailure {
  override name = "NotReached";

  constructor(
    why: string,
    readonly idempotencyKey: string | undefined,
    options?: ErrorOptions,
  ) {
    super(why, options);
  }
}

/** A write is queued and not yet carried out; `getCommand(commandId)` tells what becomes of it. */
export class StillPending extends EngramqFailure {
  override name = "StillPending";

  constructor(readonly commandId: string) {
    super(`Command ${commandId} is still under way.`);
  }
}

/** A write was repeated whose memory has been erased since. */
export class Erased extends EngramqFailure {
  override name = "Erased";

  constructor(readonly memoryId: string) {
    super(`Memory ${memoryId} was erased after it had been written.`);
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
