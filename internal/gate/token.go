package gate

import (
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/token"
	"holdpoint/internal/store"
)

// sign makes a token from its row. The same row always gives the same jti:
// however many tokens an agent asks for, one of them can be spent.
func (g *Queries) sign(a approval.Approval, t *store.TokenRow, digest string, now time.Time) (string, error) {
	expires := now.Add(g.TokenTTL)
	if t.ValidUntil.Before(expires) {
		expires = t.ValidUntil
	}
	// A token that would end within this second is no token.
	if expires.Unix() <= now.Unix() {
		return "", nil
	}
	constraints := a.Decision.Constraints
	if t.Constraints != nil {
		constraints = t.Constraints
	}
	signed, err := token.Sign(g.keys.ring(), token.Claims{
		Issuer: g.Issuer, Audience: a.Call.Environment, Subject: a.Call.AgentID,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: expires.Unix(), ID: t.JTI, ApprovalID: a.ID,
		Outcome: string(engine.Approved), Digest: digest, PolicyDigest: a.Decision.PolicyDigest, Constraints: constraints,
	})
	if err != nil {
		return "", fmt.Errorf("sign the token of %s: %w", a.ID, err)
	}
	return signed, nil
}
