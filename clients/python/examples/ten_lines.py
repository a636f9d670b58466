import holdpoint

hp = holdpoint.Client(journal="agent.journal")  # HOLDPOINT_URL, HOLDPOINT_API_KEY

@hp.guard(category="write", authorization_state="authenticated", risk_domain="finance", route="defer")
def send_payment(amount: str, to: str) -> str:
    return f"paid {amount} to {to}"

print(send_payment(amount="12.50", to="Paper & Pens Ltd."))
