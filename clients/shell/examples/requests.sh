umask 077 # The key goes to curl in a file: what is in its arguments, everybody on the machine can read.
auth=$(mktemp) json="Content-Type: application/json"
trap 'rm -f "$auth"' EXIT
printf 'Authorization: Bearer %s\n' "$HOLDPOINT_API_KEY" >"$auth"
arguments='{"amount": 12.5, "to": "Paper & Pens Ltd."}'

# 1. Propose. An Idempotency-Key lets it be sent again: the answer is the same, and nobody is asked twice.
answer=$(curl -sS --fail-with-body "$HOLDPOINT_URL/v1/pre-tool-check" -H @"$auth" -H "$json" -H "Idempotency-Key: invoice-42" -d '{
  "tool_name": "send_payment", "tool_category": "write", "authorization_state": "authenticated", "risk_domain": "finance",
  "evidence_refs": ["invoice:42"], "proposed_arguments": '"$arguments"', "recommended_route": "defer"}') || { printf '%s\n' "$answer" >&2; exit 1; }
id=$(printf %s "$answer" | jq -er '.approval.id // empty') || { printf '%s\n' "$answer" >&2; exit 1; } # accepted or refused at once
printf %s "$answer" | jq -r '"waits for \(.approval.requirements[0].role): \(.approval.links.review)"' >&2

# 2. Wait. Each answer is held until something changes, for 25 seconds at most.
status=pending
while [ "$status" = pending ]; do
  answer=$(curl -sS --fail-with-body "$HOLDPOINT_URL/v1/approvals/$id?wait=25" -H @"$auth") || { printf '%s\n' "$answer" >&2; exit 1; }
  status=$(printf %s "$answer" | jq -r .status)
done
printf %s "$answer" | jq -e '.status == "approved" and .execution == "none"' >&2 || {
  printf %s "$answer" | jq -r '"does not pay: it is \(.status), execution \(.execution)"' >&2; exit 1; }

# 3. Redeem the token for what was approved: a reviewer may have changed the arguments. Pay only after the 200, and then report what became of it.
approved="(.edited.arguments // $arguments)"
printf %s "$answer" | jq "{token: .resumption_token, tool_name, arguments: $approved}" |
  curl -sS --fail-with-body "$HOLDPOINT_URL/v1/tokens/redeem" -H @"$auth" -H "$json" -d @- >&2 || exit 1
printf %s "$answer" | jq -r "$approved"' | "paid \(.amount) to \(.to)"'
curl -sS --fail-with-body "$HOLDPOINT_URL/v1/executions" -H @"$auth" -H "$json" -d "{\"approval_id\": \"$id\", \"outcome\": \"succeeded\"}" >&2
