package web

import (
	"errors"
	"net/http"
	"strings"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/web/views"
)

// doneCookie carries the one sentence that the next page says. It names the
// sentence and does not hold it, so that nobody else can put words there.
const doneCookie = "holdpoint_done"

var doneWords = map[string]string{
	"proposed":      "Nothing is changed yet: this takes an approval. Here is what waits for it.",
	"newrules":      "The change is proposed. It comes into force when others have approved it.",
	"newrulesalone": "Careful: the change is proposed, but too few others have the role that it takes: until more have it, it cannot come into force.",
	"arstart":       "The review was started. Reviewers are told.",
	"arsaid":        "What you said is on record.",
	"arassign":      "It was assigned. The new reviewer is told.",
	"argone":        "The roles were taken away.",
	"arover":        "The review is over, and on record.",
	"held":          "The hold was placed. What it covers is kept until it is released.",
	"unheld":        "The hold was released.",
	"grant":         "The standing grant was made. It votes for calls that are proposed from now on.",
	"grantwaits":    "The standing grant was made. It votes for calls that are proposed from now on. What fits it and waits already is here, for you to decide.",
	"ungrant":       "The standing grant was revoked. It votes for nothing any more.",
	"agent":         "The agent's registration was changed. It holds from the next call on.",
	"revoked":       "The agent's registration was revoked. Its calls are refused now.",
	"restored":      "The agent's registration was restored.",
	"stopped":       "The agent's kill switch is on. Nothing is granted to it any more.",
	"released":      "The agent's kill switch is off. Its calls are judged again.",
	"allstop":       "The kill switch for all agents is on. No gate grants anything any more.",
	"allgo":         "The kill switch for all agents is off. Calls are judged again.",
	"settings":      "The settings for all agents were changed.",
	"tool":          "The tool's registration was changed.",
	"toolgone":      "The tool's registration was revoked. Calls of it are refused now.",
	"toolback":      "The tool's registration was restored.",
	"passkey":       "The passkey was added. You need it, or another second factor, to sign in from now on.",
	"renamed":       "The passkey was renamed.",
	"keygone":       "The passkey was removed.",
	"totp":          "The authenticator app was added. You need it, or another second factor, to sign in from now on.",
	"totpgone":      "The authenticator app was removed.",
	"push":          "This browser is notified from now on. Send it a test.",
	"pushgone":      "The browser is not notified any more.",
	"pushdetails":   "Notifications there say what calls will do.",
	"pushplain":     "Notifications there say that something waits, and nothing of what.",
	"pushtest":      "A test is on its way to the browser.",
	"slackgone":     "The account in Slack is not linked any more.",
	"away":          "The deputy decides for that time. You both find it on this page.",
	"back":          "The delegation was revoked. It is over now; what the deputy has decided stays decided.",
	"endpoint":      "The endpoint was added. Send it a test.",
	"endpointset":   "The endpoint was changed. What is told from now on goes by it.",
	"endpointoff":   "The endpoint was switched off. Nothing is sent there any more.",
	"endpointon":    "The endpoint was switched on.",
	"tested":        "A test is on its way. It counts as sent once the other side has it.",
	"rotated":       "The endpoint's address was changed.",
	"resent":        "The notification is sent again.",
	"voted":         "Your vote is recorded.",
	"votedall":      "Your votes are recorded.",
	"commented":     "Your comment is on the card.",
	"asked":         "Your question was asked. The requesting side is told.",
	"answered":      "What you supplied is on record. The call goes on.",
	"informed":      "Your answer is on the card. The reviewers are told.",
	"claimed":       "You have claimed this for half an hour. Others can still decide it.",
	"passed-on":     "You have passed it on. Your colleague is told; others can still decide it, and you can take it back.",
	"withdrawn":     "The change was taken back. Nothing of it comes into force.",
	"unclaimed":     "You have released your claim.",
	"extended":      "It has more time now.",
	"ticket":        "The ticket is attached. Its tracker is being asked.",
	"edited":        "The arguments were changed. Somebody else has to approve them.",
	"proved":        "You have proved who you are. The call goes on.",
	"declined":      "The call will not run, because you do not want it.",
	"broken":        "You have broken the glass. Everybody concerned is told.",
	"reconciled":    "What became of the call is on record.",
	"viewsaved":     "The view was saved. You find it above your inbox.",
	"viewgone":      "The view was removed.",
	"snoozed":       "The call is snoozed. It comes back by itself, and others still see it.",
	"snoozedall":    "The calls are snoozed. They come back by themselves, and others still see them.",
	"snoozedsome":   "What could be is snoozed. A call whose deadline is before that, or that waits no more, is not.",
	"unsnoozedall":  "The calls are in your inbox again.",
	"unsnoozed":     "The call is in your inbox again.",
	"person":        "The account was changed. It holds from now on, also for what waits.",
	"persongone":    "The account is disabled: signed out everywhere, and votes in what still waits are void.",
	"personout":     "The person was signed out everywhere.",
	"password":      "Your password was changed. All other sessions of yours have ended.",
	"apikeygone":    "The API key was revoked. Whatever uses it is refused.",
	"oncall":        "Who is on call was changed. What waits for the role is looked at again.",
	"reviewed":      "What you say of it is on record.",
}

// redirectWithFlash leads on after a change, to a page that says what was done.
func (s *site) redirectWithFlash(w http.ResponseWriter, r *http.Request, what, to string) {
	s.setFlash(w, what)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// setFlash has the next page say what was done.
func (s *site) setFlash(w http.ResponseWriter, what string) {
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Value: what, Path: "/", MaxAge: 60, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
}

// undoSign stands between what was done and the approvals to which it was.
const undoSign = "~"

// withUndo has the sentence go with a button that undoes what was done to these approvals.
func withUndo(what string, ids []string) string {
	return what + undoSign + strings.Join(ids, undoSign)
}

// undoOf is the button that goes with what was done just now, for a form that is sent to
// address; without ids there is none.
func undoOf(r *http.Request, address string) views.Undo {
	cookie, err := r.Cookie(doneCookie)
	if err != nil {
		return views.Undo{}
	}
	_, ids, there := strings.Cut(cookie.Value, undoSign)
	if !there {
		return views.Undo{}
	}
	return views.Undo{Address: address, IDs: strings.Split(ids, undoSign)}
}

// flash is what was done just now, said once.
func (s *site) flash(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(doneCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
	what, _, _ := strings.Cut(cookie.Value, undoSign)
	return doneWords[what]
}

// redirectOrFail leads on after a change, or returns why there was none.
func (s *site) redirectOrFail(w http.ResponseWriter, r *http.Request, err error, what, to string) error {
	if s.leadsToApproval(w, r, err) {
		return nil
	}
	if err == nil {
		s.redirectWithFlash(w, r, what, to)
	}
	return err
}

// leadsToApproval leads to the approval that a change waits for, where it waits for one.
func (s *site) leadsToApproval(w http.ResponseWriter, r *http.Request, err error) bool {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Code != admin.ApprovalRequired || refusal.Successor == "" {
		return false
	}
	s.redirectWithFlash(w, r, "proposed", cardURL(refusal.Successor))
	return true
}
