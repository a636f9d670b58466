// Package rules keeps the judge of this moment: the policy and the tool
// contracts in force, and what is registered of agents and tools, as Postgres
// has them. Files are imported into Postgres, when a process starts, when they
// change and when it is told to look; every process judges by what is there,
// and looks again whenever it changes. What cannot be imported changes nothing:
// the last good rules stay in force, loudly. It never judges a call itself.
package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/redact"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Config says what to judge by. Store, Environment and Routing are required.
type Config struct {
	Store       *store.Store
	Environment string
	Routing     approval.Routing
	// PolicyFile and ContractsFile are imported when they are named.
	PolicyFile, ContractsFile string
	// Secret, when set, is what policies must be signed with; FormerSecret may have
	// signed them as well, while one follows the other.
	Secret, FormerSecret []byte
	Logger               *slog.Logger
	// Sealer opens the approvals by which documents are in force.
	Sealer *seal.Sealer
	// By names this process in the audit log.
	By string
}

// Keeper holds the judge of this moment. It is safe for concurrent use.
type Keeper struct {
	Config
	detector *redact.Detector
	judge    atomic.Pointer[gate.Judge]
	stops    killSwitchListeners
	status   atomic.Pointer[Status]
	warned   time.Time // when Run last spoke of the policy's end

	mu        sync.Mutex // of what follows: one look at a time
	policy    kept[*policy.Bundle]
	contracts kept[*safeai.Set]
	born      map[string]kept[error] // of documents in force that name an approval, by kind

	reading sync.Mutex // of the files: one import at a time
	files   [2]file
	problem atomic.Pointer[string] // what was wrong with them at the last look, "" for nothing
}

// kept is a document that has been read already.
type kept[T any] struct {
	digest string
	value  T
	err    error
}

// Status says what is in force, for people.
type Status struct {
	// Digest is what events name as policy_digest.
	Digest string
	// Policy is nil when there is none; the file is as its author wrote it.
	Policy     *policy.Bundle
	PolicyFile []byte
	Contracts  *safeai.Set
	// ContractsFile is as its author wrote it.
	ContractsFile []byte
	// SignedBy are the people who had signed the policy when it came into force, and Signatures
	// how many of which role a policy takes; nil for none.
	SignedBy   []string
	Signatures *approval.Rule
	// Problem is why what is in force cannot be used, and why what is in the files
	// is not in force; "" when all is well.
	Problem string

	// Guards are the kinds of documents of which a change takes an approval.
	Guards map[string]store.Guard

	documents map[string]string // digests of the documents that were looked at, by kind
}

// Open imports the files that are named and reads what is in force. A file that
// is wrong is an error here: a process does not start with it. An older policy
// than the one in force is not: another process has brought a newer one.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{Config: cfg, detector: redact.New(), born: map[string]kept[error]{}}
	k.files = [2]file{{kind: store.PolicyDocument, path: cfg.PolicyFile}, {kind: store.ContractsDocument, path: cfg.ContractsFile}}
	err := k.importFiles(ctx, true)
	if err != nil && !errors.Is(err, ErrOlder) && !errors.Is(err, ErrProposed) && !errors.Is(err, ErrSignatures) {
		return nil, err
	}
	if err := k.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err != nil {
		k.logProblem(ctx, err)
	}
	return k, nil
}

// Judge is the judge of this moment.
func (k *Keeper) Judge() *gate.Judge { return k.judge.Load() }

// Recheck judges an approval again by the rules of this moment (gate.Judge.Again).
func (k *Keeper) Recheck(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	if err := k.Usable(context.Background()); err != nil {
		return engine.Decision{}, fmt.Errorf("%w: %w", gate.ErrNoRules, err)
	}
	return k.Judge().Recheck(a, document, now)
}

// Reopen completes a decision by the rules of this moment (gate.Judge.Reopen).
func (k *Keeper) Reopen(a approval.Approval, d engine.Decision) (engine.Decision, approval.Terms) {
	return k.Judge().Reopen(a, d)
}

// Behind reports whether other rules are in force than this process has: it has yet
// to hear of them. Kill switches are not compared: every decision reads them anyway.
func (k *Keeper) Behind(now store.RulesInForce) bool {
	documents, known := k.status.Load().documents, k.Judge().Registry
	return !maps.Equal(documents, now.Documents) || !reflect.DeepEqual(known.Settings, now.Registry.Settings) ||
		!reflect.DeepEqual(known.Agents, now.Registry.Agents) || !reflect.DeepEqual(known.Tools, now.Registry.Tools)
}

// Status is what is in force at this moment.
func (k *Keeper) Status() Status {
	s := *k.status.Load()
	s.Problem = strings.Trim(s.Problem+"\n"+*k.problem.Load(), "\n")
	return s
}

// Refresh looks at once at what is in force and registered.
func (k *Keeper) Refresh(ctx context.Context) {
	if err := k.CatchUp(ctx); err != nil {
		k.Logger.ErrorContext(ctx, "the rules cannot be read; the last ones stay in force", "error", err)
	}
}

// every is how often files are looked at, and the registry is read whether or
// not anybody said that it has changed.
const (
	filesEvery    = 500 * time.Millisecond
	registryEvery = 10 * time.Second
)

// Run follows every change until ctx ends. reload makes it import the files
// again, changed or not; it may be nil.
func (k *Keeper) Run(ctx context.Context, reload <-chan os.Signal) {
	changes := k.Store.Rules.Changes(ctx)
	// Nobody has told of what has changed since Open looked.
	k.Refresh(ctx)
	files, registry := time.NewTicker(filesEvery), time.NewTicker(registryEvery)
	defer files.Stop()
	defer registry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			k.Refresh(ctx)
			k.lookAgain()
		case <-registry.C:
			k.Refresh(ctx)
			k.lookAgain()
			k.warnOfExpiry(ctx, k.Store.Clock())
		case <-files.C:
			k.reimport(ctx, false)
		case <-reload:
			k.Logger.InfoContext(ctx, "told to look at the policy and the contracts again")
			k.reimport(ctx, true)
		}
	}
}

// warnEvery is how often the log says that the policy ends soon.
const warnEvery = 6 * time.Hour

// warnOfExpiry says, now and then, that the policy ends soon or has ended.
func (k *Keeper) warnOfExpiry(ctx context.Context, now time.Time) {
	b := k.Judge().Policy
	if b == nil || b.ExpiresAt.Sub(now) > policy.ExpiresSoon || now.Sub(k.warned) < warnEvery {
		return
	}
	k.warned = now
	if b.Expired(now) {
		k.Logger.ErrorContext(ctx, "the policy has expired: every call is refused until a newer one is in force", "version", b.Version, "expired_at", b.ExpiresAt)
		return
	}
	k.Logger.WarnContext(ctx, "the policy expires soon, and every call is refused from then on", "version", b.Version, "expires_at", b.ExpiresAt)
}

// Usable reports why calls are refused whatever they are, or nil.
func (k *Keeper) Usable(context.Context) error {
	judge := k.Judge()
	switch {
	case judge.Unusable:
		return errors.New(k.status.Load().Problem)
	case judge.Policy != nil && judge.Policy.Expired(k.Store.Clock()):
		return errors.New("the policy has expired")
	}
	return nil
}

// ErrOlder is the error of a policy that is older than the one in force.
var ErrOlder = errors.New("it is older than the policy in force")

// Import checks a document and puts it in force for every process. name is its
// file's. It reports whether that changed anything. The error has one line for
// each mistake. Where such documents take an approval, it is proposed, once, and the error is
// ErrProposed.
func (k *Keeper) Import(ctx context.Context, kind string, data []byte, name string) (changed bool, err error) {
	in, err := k.read(ctx, kind, data, name)
	if err != nil {
		return false, err
	}
	e, err := gate.ActivationEvent(in.Document, in.version, "", "")
	if err != nil {
		return false, err
	}
	e.Actor = engine.Actor{Kind: engine.ServiceActor, ID: k.By, Channel: "engine"}
	changed, err = k.Store.Rules.Activate(ctx, in.Document, k.By, e, k.allowed(in))
	if errors.Is(err, store.ErrGuarded) {
		return false, k.proposeFile(ctx, in, name)
	}
	if errors.Is(err, ErrSignatures) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return changed, err
}

// allowed reports whether a document may come into force in place of another, and whose keys have
// signed it.
func (k *Keeper) allowed(in incoming) func(store.Replacing) ([]string, error) {
	return func(r store.Replacing) ([]string, error) {
		if in.bundle == nil {
			return nil, nil
		}
		if err := newer(in.bundle, r.Former); err != nil {
			return nil, err
		}
		if r.Back && r.Rule != nil {
			return nil, fmt.Errorf("%w: it was in force before and was replaced; where people sign policies, it comes back with a newer version only", ErrOlder)
		}
		return Signed(in.bundle, k.Environment, r.Signing)
	}
}

// incoming is a document that has been checked.
type incoming struct {
	store.Document
	version string         // a policy's
	bundle  *policy.Bundle // nil for other documents
}

// read checks a document as if it was to come into force now.
func (k *Keeper) read(ctx context.Context, kind string, data []byte, name string) (incoming, error) {
	people, err := k.Store.People.List(ctx)
	if err != nil {
		return incoming{}, fmt.Errorf("read who could approve: %w", err)
	}
	return k.check(kind, data, name, gate.Reviewers(people))
}

// check is read for whoever knows who could approve; nil is not asked.
func (k *Keeper) check(kind string, data []byte, name string, reviewers func(role string) []string) (incoming, error) {
	in := incoming{Document: store.Document{Kind: kind, Body: data}}
	switch kind {
	case store.PolicyDocument:
		b, problems := policy.Load(data, policy.Options{File: name, Now: k.Store.Clock(), Secret: k.Secret, FormerSecret: k.FormerSecret, Reviewers: reviewers, Calendars: k.Routing.Knows})
		if policy.HasErrors(problems) {
			return in, lines(problems)
		}
		if len(b.Version) > 64 || strings.ContainsFunc(b.Version, func(r rune) bool { return r < ' ' || r > '~' }) {
			return in, fmt.Errorf("%s: the version has to be at most 64 plain ASCII characters: versions are compared", name)
		}
		in.KnownAs, in.bundle, in.version = b.Digest, b, b.Version
	case store.ContractsDocument:
		s, problems := safeai.Load(data, name)
		if len(problems) > 0 {
			return in, lines(problems)
		}
		in.KnownAs = s.Digest()
	default:
		return in, fmt.Errorf("unknown kind of document %q", kind)
	}
	return in, nil
}

// shown is a version as a message may quote it.
func shown(version string) string { return fmt.Sprintf("%.64q", version) }

// newer refuses a policy that is older than the one in force: by version, and
// by when it was generated where the versions are the same.
func newer(b *policy.Bundle, former []byte) error {
	if former == nil {
		return nil
	}
	// Whatever is wrong with it by now, its version is the floor.
	old, problems := policy.Load(former, policy.Options{})
	if policy.HasErrors(problems) {
		return fmt.Errorf("the policy in force cannot be read, so that its version cannot be compared: %s", problems[0])
	}
	if policy.Compare(b, old) < 0 {
		return fmt.Errorf("%w: version %s of %s, where %s of %s is in force", ErrOlder,
			shown(b.Version), b.GeneratedAt.Format(time.RFC3339), shown(old.Version), old.GeneratedAt.Format(time.RFC3339))
	}
	return nil
}

func lines[P fmt.Stringer](problems []P) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.String()))
	}
	return errors.Join(errs...)
}

// CatchUp reads what is in force and registered and makes the judge of it. A
// document that was read before is not read again.
func (k *Keeper) CatchUp(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, err := k.Store.Registry.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the registry: %w", err)
	}
	r := gate.Rules{Environment: k.Environment, Routing: k.Routing, Detector: k.detector, Registry: known}
	problem := ""
	active, digests, err := k.Store.Rules.ActiveDocuments(ctx)
	switch {
	case access.IsUnavailable(err):
		return fmt.Errorf("read the rules in force: %w", err)
	case err != nil:
		// Whatever has become of them, who is stopped and revoked is known all the same.
		r.Unusable, problem = true, "the rules in force cannot be used, so that every call is refused: "+err.Error()
	}
	guards, unread := k.Store.Rules.Guards(ctx)
	if unread != nil {
		return fmt.Errorf("read which changes take an approval: %w", unread)
	}
	signing, unread := k.Store.Rules.Signing(ctx)
	if unread != nil {
		return fmt.Errorf("read who signs policies: %w", unread)
	}
	policyDoc, hasPolicy := active[store.PolicyDocument]
	contractsDoc, hasContracts := active[store.ContractsDocument]
	if err == nil && !hasPolicy && (k.PolicyFile != "" || len(k.Secret) > 0 || signing.Rule != nil) {
		r.Unusable, problem = true, "no policy is in force, although there has to be one, so that every call is refused"
	}
	if hasPolicy {
		k.policy = k.policy.read(policyDoc, func(body []byte) (*policy.Bundle, error) {
			// Expiry is judged at every decision: an expired policy refuses, it is not forgotten.
			b, problems := policy.Load(body, policy.Options{Secret: k.Secret, FormerSecret: k.FormerSecret})
			if policy.HasErrors(problems) {
				return nil, lines(problems)
			}
			return b, nil
		})
		r.Policy = k.policy.value
		refused, err := k.approved(ctx, policyDoc)
		if err != nil {
			return err
		}
		if k.policy.err == nil && signing.Rule != nil {
			refused = errors.Join(refused, StillSigned(k.policy.value, k.Environment, policyDoc, signing))
		}
		if refused = errors.Join(k.policy.err, refused); refused != nil {
			r.Unusable, problem = true, "the policy in force cannot be used, so that every call is refused: "+refused.Error()
		}
	}
	if hasContracts {
		k.contracts = k.contracts.read(contractsDoc, func(body []byte) (*safeai.Set, error) {
			s, problems := safeai.Load(body, "")
			if len(problems) > 0 {
				return nil, lines(problems)
			}
			return s, nil
		})
		r.Contracts = k.contracts.value
		refused, err := k.approved(ctx, contractsDoc)
		if err != nil {
			return err
		}
		if refused = errors.Join(k.contracts.err, refused); refused != nil {
			r.Unusable, problem = true, "the tool contracts in force cannot be used, so that every call is refused: "+refused.Error()
		}
	}
	if problem != "" {
		k.Logger.ErrorContext(ctx, "the rules in force cannot be used, so that every call is refused", "problem", problem)
	}
	judge, err := gate.NewJudge(r)
	if err != nil {
		return err
	}
	former := k.judge.Load()
	if former == nil || former.Digest() != judge.Digest() {
		if err := k.Store.Rules.KeepRuleset(ctx, judge.Digest(), judge.Body()); err != nil {
			return fmt.Errorf("keep what decisions are judged by: %w", err)
		}
	}
	// The judge first: who compares what the status says of it never thinks it newer
	// than it is.
	k.judge.Store(judge)
	k.status.Store(&Status{
		documents: digests, Guards: guards, SignedBy: signersInForce(policyDoc, signing), Signatures: signaturesWanted(signing),
		Digest: judge.Digest(), Policy: r.Policy, PolicyFile: policyDoc.Body, Contracts: r.Contracts, ContractsFile: contractsDoc.Body,
		Problem: problem,
	})
	if former != nil {
		k.stops.notify(former.Registry.Kills, known.Kills)
	}
	return nil
}

// read returns the document as it was read before, or reads it.
func (k kept[T]) read(d store.Document, load func([]byte) (T, error)) kept[T] {
	if digest := d.Digest(); k.digest != digest {
		k.digest = digest
		k.value, k.err = load(d.Body)
	}
	return k
}
