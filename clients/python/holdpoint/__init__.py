"""The client of Holdpoint, the approval engine for AI agents' tool calls.

It proposes calls, waits for people, spends the token that their approval yields, runs the call as it was
approved, and reports what became of it. It uses the standard library only, runs nothing that is not
permitted, and never puts a key, a token or an argument into an error.

    hp = holdpoint.Client("http://127.0.0.1:8080", key, journal="agent.journal")

    @hp.guard(category="write", authorization_state="authenticated", risk_domain="finance")
    def send_payment(amount: str, to: str) -> str: ...

In doubt, nothing is run: an error means that the call was not permitted, whatever the error is, except
for Unreported and OutcomeUnknown.
"""

from .canon import canonical, digest
from .client import AsyncClient, Client, Unfinished
from .errors import (
    AlreadyDone,
    ConstraintsNotKept,
    EditNotUsable,
    HoldpointError,
    InvalidToken,
    InvalidWebhook,
    JournalError,
    NotApproved,
    OutcomeUnknown,
    Problem,
    Refused,
    Stopped,
    Uncertain,
    Unreachable,
    Unreported,
)
from .token import Claims, verify_token
from .transport import VERSION as __version__
from .transport import Stop
from .webhook import Webhook, verify_webhook
from .wire import Approval, Call, Decision, Redemption

__all__ = [
    "AlreadyDone",
    "Approval",
    "AsyncClient",
    "Call",
    "Claims",
    "Client",
    "ConstraintsNotKept",
    "Decision",
    "EditNotUsable",
    "HoldpointError",
    "InvalidToken",
    "InvalidWebhook",
    "JournalError",
    "NotApproved",
    "OutcomeUnknown",
    "Problem",
    "Redemption",
    "Refused",
    "Stop",
    "Stopped",
    "Uncertain",
    "Unfinished",
    "Unreachable",
    "Unreported",
    "Webhook",
    "__version__",
    "canonical",
    "digest",
    "verify_token",
    "verify_webhook",
]
