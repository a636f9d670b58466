package tests

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestTwoOfEverything runs the races on two serve and two worker processes
// that share one Postgres and one Temporal.
func TestTwoOfEverything(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 2, 2)
	for _, sub := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"the loop across both", loopAcross},
		{"64 redeems of one token", redeemsAtOnce},
		{"votes of a whole quorum at once", quorumAtOnce},
		{"vote against timeout", voteAgainstTimeout},
		{"vote against cancel", voteAgainstCancel},
		{"approve against deny", approveAgainstDeny},
		{"one reviewer 50 times at once", oneReviewerManyTimes},
		{"one idempotency key at once", oneKeyAtOnce},
		{"signing keys of two gates", keysOfTwoGates},
		{"the data key is changed", dataKeyUnderLoad},
		{"keys under a KMS", keysUnderAKMS},
		{"either half may go", eitherHalfMayGo},
	} {
		t.Run(sub.name, func(t *testing.T) {
			sub.run(t, c)
			if !t.Failed() {
				c.check(t)
			}
		})
	}
}

// inRounds runs a race for rounds(), a few at a time.
func inRounds(t *testing.T, round func(i int) error) {
	t.Helper()
	began := time.Now()
	slots := make(chan struct{}, 16)
	var all sync.WaitGroup
	for i := range rounds() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := round(i); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
		})
	}
	all.Wait()
	t.Logf("%d rounds in %s", rounds(), time.Since(began).Round(10*time.Millisecond))
}

// opened proposes a call that waits, in a round that must not end the test.
func opened(agent *client, tool string) (approval, error) {
	got := agent.propose(event(tool, "defer", map[string]any{"id": newID("")}))
	var v struct{ Approval approval }
	if got.Status != 202 {
		return v.Approval, fmt.Errorf("propose: %s", got)
	}
	got.into(agent.t, &v)
	return v.Approval, nil
}

func loopAcross(t *testing.T, c *cluster) {
	a, b := c.agent(t).at(c.urls[0]), c.agent(t).at(c.urls[1])
	waiting := a.hold("pay", map[string]any{"n": 1})
	woken := make(chan answer, 1)
	go func() { woken <- a.do("GET", approvalPath(waiting.ID)+"?wait=40", nil) }()
	reviewer := c.reviewer(t, 0).at(c.urls[1])
	reviewer.approve(reviewer.get(waiting.ID))
	if got := <-woken; got.Status != 200 || got.Took > healWithin {
		t.Errorf("the reader at A got %s after %s", got, got.Took)
	}
	approved := a.wait(waiting.ID)
	if approved.Status != "approved" {
		t.Fatalf("%+v", approved)
	}
	b.redeem(approved.Token, "pay", map[string]any{"n": 1}).want(t, 200)
	a.redeem(approved.Token, "pay", map[string]any{"n": 1}).want(t, 409, "token_used")
	a.do("POST", "/v1/executions", map[string]any{"approval_id": waiting.ID, "outcome": "failed"}).want(t, 200)
	if got := b.get(waiting.ID).Execution; got != "failed" {
		t.Errorf("execution at B is %q", got)
	}
}

// redeemsAtOnce: however many ask at once, wherever: one is let through.
func redeemsAtOnce(t *testing.T, c *cluster) {
	agent := c.agent(t)
	a := agent.hold("pay", nil)
	c.reviewer(t, 0).approve(a)
	approved := agent.wait(a.ID)
	answers := make([]answer, 64)
	together(len(answers), func(i int) {
		answers[i] = agent.at(c.where(i)).redeem(approved.Token, "pay", map[string]any{})
	})
	got := statuses(answers)
	if got[200] != 1 || got[409] != 63 {
		t.Errorf("statuses %v, want one 200 and 63 × 409", got)
	}
	for _, a := range answers {
		if a.Status == 409 && a.code() != "token_used" {
			t.Errorf("refused with %s", a)
		}
	}
}

// quorumAtOnce: the votes that make up a quorum come in at the same moment.
func quorumAtOnce(t *testing.T, c *cluster) {
	agent := c.agent(t)
	reviewers := []*client{c.reviewer(t, 0), c.reviewer(t, 1), c.reviewer(t, 2)}
	inRounds(t, func(i int) error {
		a, err := opened(agent.at(c.where(i)), "quorum_pay")
		if err != nil {
			return err
		}
		answers := make([]answer, len(reviewers))
		together(len(reviewers), func(k int) { answers[k] = reviewers[k].at(c.where(k+i)).vote(a, "approve") })
		if got := statuses(answers); got[200] != len(reviewers) {
			return fmt.Errorf("votes answered %v", answers)
		}
		end, err := agent.await(a.ID, settleWithin)
		if err == nil && (end.Status != "approved" || end.Requirements[0].Given != 3) {
			err = fmt.Errorf("ended %+v", end)
		}
		return err
	})
}

// voteAgainstTimeout: a vote at the deadline, give or take 30 ms. It counts if
// and only if it was answered with 200.
func voteAgainstTimeout(t *testing.T, c *cluster) {
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	var mu sync.Mutex
	ends := map[string]int{}
	inRounds(t, func(i int) error {
		a, err := opened(agent.at(c.where(i)), "race_pay")
		if err != nil {
			return err
		}
		phase := time.Duration(rand.IntN(61)-30) * time.Millisecond
		<-time.After(time.Until(a.ExpiresAt.Add(phase))) // the phase is the test, not a way to wait
		voted := reviewer.at(c.where(i+1)).vote(a, "approve")
		end, err := agent.await(a.ID, settleWithin)
		if err != nil {
			return err
		}
		mu.Lock()
		ends[end.Status]++
		mu.Unlock()
		switch {
		case voted.Status == 200 && end.Status == "approved":
		case voted.Status == 410 && voted.code() == "expired" && end.Status == "expired":
		default:
			return fmt.Errorf("%s from the deadline: the vote was answered %s, the approval ended %+v", phase, voted, end)
		}
		if late := end.EndedAt.Sub(a.ExpiresAt); end.Status == "expired" && (late < 0 || late > healWithin) {
			return fmt.Errorf("it expired %s after its deadline", late)
		}
		return nil
	})
	t.Logf("ended %v", ends)
}

// voteAgainstCancel: the reviewer approves while the agent takes it back.
func voteAgainstCancel(t *testing.T, c *cluster) {
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	inRounds(t, func(i int) error {
		a, err := opened(agent.at(c.where(i)), "pay")
		if err != nil {
			return err
		}
		var voted, cancelled answer
		together(2, func(k int) {
			if k == 0 {
				voted = reviewer.at(c.where(i)).vote(a, "approve")
			} else {
				cancelled = agent.at(c.where(i + 1)).cancel(a.ID)
			}
		})
		end, err := agent.await(a.ID, settleWithin)
		if err != nil {
			return err
		}
		if won := voted.Status == 200; won && (cancelled.Status != 409 || end.Status != "approved") || !won && (voted.Status != 409 || cancelled.Status != 200 || end.Status != "cancelled") {
			return fmt.Errorf("vote %s, cancel %s, ended %s", voted, cancelled, end.Status)
		}
		return nil
	})
}

// approveAgainstDeny: two reviewers disagree at the same moment.
func approveAgainstDeny(t *testing.T, c *cluster) {
	agent := c.agent(t)
	reviewers := []*client{c.reviewer(t, 0), c.reviewer(t, 1)}
	decisions, statusOf := []string{"approve", "deny"}, []string{"approved", "denied"}
	inRounds(t, func(i int) error {
		a, err := opened(agent.at(c.where(i)), "pay")
		if err != nil {
			return err
		}
		answers := make([]answer, 2)
		together(2, func(k int) { answers[k] = reviewers[k].at(c.where(i+k)).vote(a, decisions[k]) })
		end, err := agent.await(a.ID, settleWithin)
		if err != nil {
			return err
		}
		for k := range answers {
			if won := end.Status == statusOf[k]; won && answers[k].Status != 200 || !won && answers[k].Status != 409 {
				return fmt.Errorf("answers %v, ended %s", answers, end.Status)
			}
		}
		return nil
	})
}

// oneReviewerManyTimes: one person has one voice, however often it is raised.
func oneReviewerManyTimes(t *testing.T, c *cluster) {
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	a := agent.hold("pair_pay", nil)
	answers := make([]answer, 50)
	together(len(answers), func(i int) { answers[i] = reviewer.at(c.where(i)).vote(a, "approve") })
	if got := statuses(answers); got[200] != 1 || got[409] != 49 {
		t.Errorf("statuses %v, want one 200 and 49 × 409", got)
	}
	if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 1 {
		t.Errorf("after 50 votes of one person: %+v", got)
	}
	agent.cancel(a.ID).want(t, 200)
}

// oneKeyAtOnce: the same request with the same Idempotency-Key, many times at
// once at both gates, is one request.
func oneKeyAtOnce(t *testing.T, c *cluster) {
	agent := c.agent(t)
	key, body := header{"Idempotency-Key", newID("k-")}, event("pay", "defer", map[string]any{"n": 7})
	answers := make([]answer, 32)
	together(len(answers), func(i int) { answers[i] = agent.at(c.where(i)).propose(body, key) })
	ids := map[string]int{}
	for _, a := range answers {
		var v struct{ Approval approval }
		a.want(t, 202).into(t, &v)
		ids[v.Approval.ID]++
		if string(a.Body) != string(answers[0].Body) {
			t.Errorf("another answer to the same request: %s, first %s", a, answers[0])
		}
	}
	if len(ids) != 1 {
		t.Errorf("approvals %v, want one", ids)
	}
	for id := range ids {
		reviewer := c.reviewer(t, 0)
		reviewer.approve(reviewer.get(id))
		token := agent.wait(id).Token
		spend := header{"Idempotency-Key", newID("k-")}
		together(len(answers), func(i int) {
			answers[i] = agent.at(c.where(i)).redeem(token, "pay", map[string]any{"n": 7}, spend)
		})
		if got := statuses(answers); got[200] != len(answers) {
			t.Errorf("the same redeem, repeated: %v", got)
		}
		agent.redeem(token, "pay", map[string]any{"n": 7}).want(t, 409, "token_used")
	}
}

// eitherHalfMayGo: one gate and one worker are killed; the others go on.
func eitherHalfMayGo(t *testing.T, c *cluster) {
	agent := c.agent(t).at(c.urls[1])
	before := agent.hold("pay", nil)
	c.serves[0].kill()
	c.workers[0].kill()
	c.serves, c.workers = c.serves[1:], c.workers[1:]
	c.URL, c.urls = c.urls[1], c.urls[1:]
	reviewer := c.reviewer(t, 0)
	for _, a := range []approval{before, agent.hold("pay", nil)} {
		began := time.Now()
		reviewer.approve(a)
		got := agent.wait(a.ID)
		if got.Status != "approved" || got.EndedAt.Sub(began) > healWithin {
			t.Errorf("after half of it was killed: %s after %s", got.Status, got.EndedAt.Sub(began))
		}
	}
}
