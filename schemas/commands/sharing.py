"""Commands on who sees a memory: shared with the namespace, and private again."""

from typing import Final, Literal

from msgspec import UNSET, UnsetType

from engramq.schemas.commands.base import ExampleCall, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.fields import JudgedDigest, MemoryId, Note
from engramq.schemas.vocabulary import Thing

# The subject of the guide's examples.
_KEEP: Final = ExampleCall.of("store_memory", content="Ada would rather lead the harbour team", visibility="private")
_LOOK: Final = ExampleCall.of("get_memory", memory_id="<stored.id>", detail="full")
_SHARE: Final = ExampleCall.of("share_memory", memory_id="<stored.id>", seen="<memory.digest>")


class ShareMemory(WriteCommand, frozen=True, kw_only=True, tag="share_memory"):
    """Let everybody in the namespace see a private memory."""

    memory_id: MemoryId
    seen: JudgedDigest | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


class Shared(WriteReply, kw_only=True, tag="shared"):
    """Whether everybody sees the memory now. consent_required: nothing has changed, and `hint` says what to do.

    `what` and `hint` say what is not there.
    """

    status: Literal["shared", "consent_required", "not_found"]
    memory_id: str
    proposal_id: str | UnsetType = UNSET
    approved_by: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


SHARE_MEMORY: Final = Tool(
    parameters=ShareMemory,
    replies=(Shared,),
    rest="POST /memories/{memory_id}/share",
    client_name="share",
    title="Share a memory",
    summary="Let everybody see your private memory, as you read it. Call it when asked to. Not for secrets. "
    "unshare_memory undoes it.",
    example='share_memory(memory_id="<id>", seen="<digest>")',
    ids=("memory_id",),
    ids_only=True,
    destructive=True,
    idempotent=True,
    guide=ToolGuide(
        what="Lets everybody in the namespace see a private memory of yours, and its links to what they see.",
        when="You were asked to share it, and have read it once more.",
        when_not="It holds what is nobody else's business. Others have the same: their own is there already.",
        cost="One audited transaction, about 10 ms.",
        returns="shared or not_found, and memory_id; where the namespace asks for consent, consent_required with a "
        "proposal_id, which shows the memory to who may verify. conflict if seen is another digest.",
        next="consent_required: have somebody else approve it by decide_proposal, then call again. It was a mistake: "
        "unshare_memory, before others build on it.",
        before=(_KEEP, _LOOK),
        example=_SHARE,
    ),
)


class UnshareMemory(WriteCommand, frozen=True, kw_only=True, tag="unshare_memory"):
    """Make a memory private again."""

    memory_id: MemoryId


class Unshared(WriteReply, kw_only=True, tag="unshared"):
    """Whether the memory is private now. `refused`: others have built on it, `built_on` names what the caller sees.

    `hint` says what to do instead, or, with `what`, where to look.
    """

    status: Literal["private", "refused", "not_found"]
    memory_id: str
    built_on: list[str] | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


UNSHARE_MEMORY: Final = Tool(
    parameters=UnshareMemory,
    replies=(Unshared,),
    rest="POST /memories/{memory_id}/unshare",
    client_name="unshare",
    title="Unshare a memory",
    summary="Make your memory private again. Call it when shared by mistake. Not once others link it.",
    example='unshare_memory(memory_id="<id>")',
    ids=("memory_id",),
    ids_only=True,
    destructive=True,
    idempotent=True,
    guide=ToolGuide(
        what="Makes a memory that you stored private to you, with its links, as long as nobody has built on it.",
        when="It was shared by mistake, or you no longer want the consent to share it that you asked for.",
        when_not="Others have linked it, or it replaced another: they rely on it. forget_memory hides it from all.",
        cost="One audited transaction, about 10 ms.",
        returns="private, not_found, or refused with built_on, the ids of what stands on it that you see, at most 5.",
        next="Refused: talk to them, supersede_memory or forget_memory.",
        before=(_KEEP, _LOOK, _SHARE),
        example=ExampleCall.of("unshare_memory", memory_id="<stored.id>"),
    ),
)
