import { Client, Stopped } from "holdpoint";

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const refund = ({ order, amount }) => console.log("paid", amount, "for", order);

async function settle(args, ticket, context) {
  const decision = await hp.check("refund", args, { category: "write", authorizationState: "authenticated", route: "defer" });
  if (decision.accepted) {
    refund(args); // within decision.constraints
    return "accepted";
  }
  if (!decision.approval) return "refused: " + decision.hardBlockers.join(", ");
  let approval = decision.approval;
  while (!approval.final) {
    if (approval.question) approval = await hp.inform(approval.id, context);
    else if (approval.nextAction === "attach_ticket") approval = await hp.attachTicket(approval.id, ticket);
    try { // wait, answer (by the runtime), verify (by its user): it is others' turn
      approval = await hp.wait(approval.id, { timeoutMs: 30_000 });
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
      approval = await hp.get(approval.id); // is there a question by now?
    }
  }
  if (approval.status !== "approved") {
    return `${approval.status} ${approval.denial?.kind ?? ""}`; // wrong_args, needs_info: another call; not_now: later; never
  }
  const approved = approval.edited ?? args;
  await hp.redeem(approval.token, "refund", approved); // throws, if it may not run (any more); has constraints
  try {
    refund(approved);
  } catch (error) {
    await hp.report(approval.id, "failed"); // or unknown
    throw error;
  }
  await hp.report(approval.id, "succeeded");
  return "approved";
}

console.log(await settle({ order: "4711", amount: "12.50" }, "OPS-1", "The parcel was lost."));
