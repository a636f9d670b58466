import { Client } from "holdpoint";

const hp = new Client({ journal: "agent.journal" }); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const sendPayment = hp.guard(
  { tool: "send_payment", category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" },
  async ({ amount, to }) => `paid ${amount} to ${to}`,
);

console.log(await sendPayment({ amount: "12.50", to: "Paper & Pens Ltd." }));
