import holdpoint

hp = holdpoint.Client()  # HOLDPOINT_URL, HOLDPOINT_API_KEY


def refund(order: str, amount: str) -> None:
    print("paid", amount, "for", order)


def settle(arguments: dict, ticket: str, context: str) -> str:
    decision = hp.check(holdpoint.Call("refund", arguments, category="write", authorization_state="authenticated", route="defer"))
    if decision.accepted:
        refund(**arguments)  # within decision.constraints
        return "accepted"
    if decision.approval is None:
        return "refused: " + ", ".join(decision.hard_blockers)
    approval = decision.approval
    while not approval.final:
        if approval.question:
            approval = hp.inform(approval.id, context)
        elif approval.next_action == "attach_ticket":
            approval = hp.attach_ticket(approval.id, ticket)
        try:  # wait, answer (by the runtime), verify (by its user): it is others' turn
            approval = hp.wait(approval.id, timeout=30)
        except holdpoint.Stopped:
            approval = hp.get(approval.id)  # is there a question by now?
    if approval.status != "approved":
        denial = approval.denial or {}
        return f"{approval.status} {denial.get('kind', '')}"  # wrong_args, needs_info: another call; not_now: later; never
    if approval.is_edited:
        arguments = approval.edited_arguments
    hp.redeem(approval.token, "refund", arguments)  # raises, if it may not run (any more); has constraints
    try:
        refund(**arguments)
    except Exception:
        hp.report(approval.id, "failed")  # or unknown
        raise
    hp.report(approval.id, "succeeded")
    return "approved"


print(settle({"order": "4711", "amount": "12.50"}, ticket="OPS-1", context="The parcel was lost."))
