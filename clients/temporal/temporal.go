// Package holdpointtemporal puts Holdpoint before activities of Temporal workflows:
//
//	w := worker.New(client, "agents", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{holdpointtemporal.New(holdpoint, holdpointtemporal.Tools{
//			"SendPayment": {RiskDomain: "finance"},
//		})},
//	})
//
// The workflows stay as they are. Each call of SendPayment is proposed before it runs,
// under a key made of workflow, run and place, so that a worker that dies proposes
// nothing twice. A call that waits for people costs no worker and no event of the
// workflow's history: it is an activity that Temporal tries again later. An approved
// call runs once at most, with what a reviewer has made of its argument.
package holdpointtemporal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	holdpoint "holdpoint.example/client"
)

// Tools are the activities that are gated, by their type.
type Tools map[string]Tool

// Tool says how the calls of an activity are proposed. The zero value is a tool of which
// only its registration knows what it does.
type Tool struct {
	// Name is the tool's name at the server; "" is the activity's type.
	Name string
	// Category and RiskDomain are of the Agent Action Contract; "" is unknown.
	Category, RiskDomain string
	// State is the authorization state that is claimed; "" is authenticated. The key says
	// how much of it counts.
	State string
	// Evidence is what speaks for the calls; nil names the workflow.
	Evidence []any
}

// The types of the errors by which a gated activity fails. Temporal tries none of them
// again.
const (
	// Refused: the rules or people said no, or nobody said yes in time.
	Refused = "HoldpointRefused"
	// OutcomeUnknown: the call's permission was taken before, by an attempt that has not
	// told what came of it. It is not run again; a person finds out.
	OutcomeUnknown = "HoldpointOutcomeUnknown"
	// Failed: the activity ran and returned an error. It was permitted once, so it is not
	// tried again; a workflow that calls it anew asks anew.
	Failed = "HoldpointFailed"
	// Ungated: the activity was started without a permit, such as by a worker without this
	// interceptor.
	Ungated = "HoldpointUngated"
)

// waiting is the error of an attempt that finds people undecided; another attempt follows.
const waiting = "HoldpointWaiting"

// New makes the interceptor of a worker's options. Every worker that runs the workflows,
// or the activities, needs it: an activity of tools that comes without a permit fails.
func New(client *holdpoint.Client, tools Tools) interceptor.WorkerInterceptor {
	return &gate{client: client, tools: tools}
}

type gate struct {
	interceptor.WorkerInterceptorBase
	client *holdpoint.Client
	tools  Tools
}

// The members of an activity's header.
const (
	headerKey      = "holdpoint-key"      // under which the call is proposed
	headerApproval = "holdpoint-approval" // by which it runs; missing while it is proposed
)

func (g *gate) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, g}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	gate *gate
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.gate, 0})
}

// outbound is of one workflow.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	gate  *gate
	calls int
}

// ExecuteActivity has a gated activity permitted, by an activity of the same type that
// runs nothing, and then runs it.
func (o *outbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if _, gated := o.gate.tools[activityType]; !gated {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	// A workflow that has called it before there was this interceptor goes on as it began:
	// what is in its history has run. What is not, its worker refuses.
	if workflow.GetVersion(ctx, "holdpoint:"+activityType, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	future, settable := workflow.NewFuture(ctx)
	o.calls++
	run := workflow.GetInfo(ctx).WorkflowExecution
	key := "temporal:" + run.ID + ":" + run.RunID + ":" + strconv.Itoa(o.calls)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var approvalID string
		err := header(ctx, headerKey, key)
		if err == nil {
			err = o.Next.ExecuteActivity(patient(ctx), activityType, args...).Get(ctx, &approvalID)
		}
		if err == nil {
			err = header(ctx, headerApproval, approvalID)
		}
		if err != nil {
			settable.SetError(err)
			return
		}
		settable.Chain(o.Next.ExecuteActivity(ctx, activityType, args...))
	})
	return future
}

// ExecuteLocalActivity refuses a gated activity: a local one cannot wait.
func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if _, gated := o.gate.tools[activityType]; !gated {
		return o.Next.ExecuteLocalActivity(ctx, activityType, args...)
	}
	future, settable := workflow.NewFuture(ctx)
	settable.SetError(temporal.NewNonRetryableApplicationError(activityType+" is gated, and cannot be a local activity", Ungated, nil))
	return future
}

// patient are the options of the attempts to have a call permitted: as many as it takes.
func patient(ctx workflow.Context) workflow.Context {
	options := workflow.GetActivityOptions(ctx)
	options.ActivityID = ""
	options.ScheduleToCloseTimeout = 0 // the approval's own time ends the wait
	options.StartToCloseTimeout = time.Minute
	options.HeartbeatTimeout = 0
	options.RetryPolicy = &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute}
	return workflow.WithActivityOptions(ctx, options)
}

func header(ctx workflow.Context, member, value string) error {
	payload, err := converter.GetDefaultDataConverter().ToPayload(value)
	if err != nil {
		return fmt.Errorf("write the activity's header: %w", err)
	}
	interceptor.WorkflowHeader(ctx)[member] = payload
	return nil
}

func (g *gate) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &execution{interceptor.ActivityInboundInterceptorBase{Next: next}, g}
}

type execution struct {
	interceptor.ActivityInboundInterceptorBase
	gate *gate
}

// ExecuteActivity runs an attempt of an activity.
func (x *execution) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	tool, gated := x.gate.tools[info.ActivityType.Name]
	if !gated {
		return x.Next.ExecuteActivity(ctx, in)
	}
	members := interceptor.Header(ctx)
	key, approvalID := member(members, headerKey), member(members, headerApproval)
	if key == "" {
		return nil, temporal.NewNonRetryableApplicationError(info.ActivityType.Name+" is gated, and was started without a permit", Ungated, nil)
	}
	tool.Name = cmp.Or(tool.Name, info.ActivityType.Name)
	runs := approvalID != ""
	if !runs {
		event, err := tool.event(info, in.Args)
		if err != nil {
			return nil, temporal.NewNonRetryableApplicationError(err.Error(), Refused, err)
		}
		// Under the same key the server answers every attempt as it did the first.
		d, err := x.gate.client.CheckAs(ctx, key, event)
		switch {
		case err != nil:
			return nil, failure(err)
		case d.Approval == nil:
			return nil, refusal(&holdpoint.Refused{Decision: d})
		}
		approvalID = d.Approval.ID
	}
	// What runs is this very approval, whatever the server still knows of the key.
	a, err := x.gate.client.Get(ctx, approvalID)
	switch {
	case err != nil:
		return nil, failure(err)
	case !a.Status.Final():
		return nil, temporal.NewApplicationErrorWithOptions(undecided(a), waiting, temporal.ApplicationErrorOptions{NextRetryDelay: pause(info.Attempt)})
	case a.Status != holdpoint.Approved:
		return nil, refusal(&holdpoint.Refused{Approval: &a})
	case !runs:
		return approvalID, nil
	}
	return x.run(ctx, in, tool, key, a)
}

// run spends the permission and runs the activity, unless an earlier attempt has spent it.
func (x *execution) run(ctx context.Context, in *interceptor.ExecuteActivityInput, tool Tool, key string, a holdpoint.Approval) (any, error) {
	arguments := argumentsOf(in.Args)
	if a.Edited != nil {
		changed, err := retold(in.Args, a.Edited.Arguments)
		if err != nil {
			return nil, temporal.NewNonRetryableApplicationError("the call was changed to what the activity cannot take: "+err.Error(), Refused, err)
		}
		in.Args, arguments = changed, a.Edited.Arguments
	}
	if a.Token == "" {
		return nil, unknownOutcome(a, nil)
	}
	// An attempt that asks twice is one and the same; another attempt cannot know what this
	// one has done, and finds the token spent.
	attempt := key + ":" + strconv.Itoa(int(activity.GetInfo(ctx).Attempt))
	redeemed, err := x.gate.client.RedeemAs(ctx, attempt, a.Token, tool.Name, arguments)
	var p *holdpoint.Problem
	switch {
	case errors.As(err, &p) && p.Status == 409:
		return nil, unknownOutcome(a, err)
	case err != nil:
		return nil, failure(err)
	}
	began, outcome := time.Now(), holdpoint.Uncertain // of a panic
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := x.gate.client.Report(last, a.ID, outcome, time.Since(began)); err != nil {
			activity.GetLogger(ctx).Error("what became of a call is not reported", "approval", a.ID, "error", err)
		}
	}()
	if holdpoint.Constrained(redeemed.Constraints) {
		outcome = holdpoint.Failed
		return nil, temporal.NewNonRetryableApplicationError("the call is approved under constraints, which an activity cannot be held to: "+string(redeemed.Constraints), Refused, nil)
	}
	result, err := x.Next.ExecuteActivity(ctx, in)
	switch {
	case errors.Is(err, activity.ErrResultPending):
		return result, err // it goes on elsewhere, and nobody knows yet
	case err == nil:
		outcome = holdpoint.Succeeded
	case errors.Is(err, holdpoint.ErrUncertain), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		outcome = holdpoint.Failed
	}
	if err != nil {
		err = temporal.NewNonRetryableApplicationError(err.Error(), Failed, err)
	}
	return result, err
}

func (t Tool) event(info activity.Info, args []any) (holdpoint.Event, error) {
	e := holdpoint.Event{
		ToolName: t.Name, ToolCategory: cmp.Or(t.Category, holdpoint.Unknown), RiskDomain: cmp.Or(t.RiskDomain, "unknown"),
		AuthorizationState: cmp.Or(t.State, holdpoint.Authenticated), EvidenceRefs: t.Evidence, RecommendedRoute: holdpoint.Accept, WantToken: true,
	}
	if e.EvidenceRefs == nil {
		e.EvidenceRefs = []any{"workflow:" + info.WorkflowExecution.ID}
	}
	arguments, err := json.Marshal(argumentsOf(args))
	if err != nil {
		return e, fmt.Errorf("the arguments cannot be proposed: %w", err)
	}
	e.Arguments = json.RawMessage(arguments)
	return e, nil
}

// argumentsOf is what is proposed of an activity's arguments: its only one, if that is an
// object, else all of them in a list.
func argumentsOf(args []any) any {
	if len(args) == 1 && isObject(args[0]) {
		return args[0]
	}
	return map[string]any{"args": append([]any{}, args...)}
}

func isObject(v any) bool {
	data, err := json.Marshal(v)
	return err == nil && len(data) > 0 && data[0] == '{'
}

// retold reads approved arguments as what the activity takes.
func retold(args []any, approved json.RawMessage) ([]any, error) {
	into := make([]any, len(args))
	for i, a := range args {
		into[i] = reflect.New(reflect.TypeOf(a)).Interface()
	}
	var err error
	if len(args) == 1 && isObject(args[0]) {
		err = exactly(approved, into[0])
	} else {
		list := struct {
			Args []json.RawMessage `json:"args"`
		}{}
		if err = exactly(approved, &list); err == nil && len(list.Args) != len(args) {
			err = fmt.Errorf("it takes %d arguments, not %d", len(args), len(list.Args))
		}
		for i := 0; err == nil && i < len(args); i++ {
			err = exactly(list.Args[i], into[i])
		}
	}
	changed := make([]any, len(args))
	for i := range into {
		changed[i] = reflect.ValueOf(into[i]).Elem().Interface()
	}
	if err == nil {
		err = saysTheSame(argumentsOf(changed), approved)
	}
	return changed, err
}

// saysTheSame reports what an activity would run with that was not approved: a member that is missing or null has
// become one that is empty, or a number one that is less exact.
func saysTheSame(changed any, approved json.RawMessage) error {
	is, err := holdpoint.Digest("", changed)
	if err != nil {
		return err
	}
	was, err := holdpoint.Digest("", approved)
	if err == nil && is != was {
		err = errors.New("its arguments would not be those")
	}
	return err
}

// exactly reads JSON without leaving anything out.
func exactly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// undecided is what the worker's log says at each attempt.
func undecided(a holdpoint.Approval) string {
	text := "people have not decided yet: " + a.Links.Review
	if a.Question != nil {
		text += fmt.Sprintf("; a reviewer asks: %q", a.Question.Text)
	}
	return text
}

// pause is how long it takes until people are looked after again: a share of how long
// they have been waited for.
func pause(attempt int32) time.Duration {
	return min(time.Duration(attempt)*2*time.Second, time.Minute)
}

// failure is an error of the server or of the way to it. What another attempt may mend,
// Temporal tries again.
func failure(err error) error {
	var p *holdpoint.Problem
	if errors.As(err, &p) && p.Status/100 == 4 && p.Status != 408 && p.Status != 429 {
		return temporal.NewNonRetryableApplicationError(err.Error(), Refused, err)
	}
	return err
}

func refusal(r *holdpoint.Refused) error {
	return temporal.NewNonRetryableApplicationError(r.Error(), Refused, r)
}

func unknownOutcome(a holdpoint.Approval, err error) error {
	return temporal.NewNonRetryableApplicationError("the permission of "+a.ID+" was taken before, so that the call may have run; it is not run again", OutcomeUnknown, err)
}

func member(header map[string]*commonpb.Payload, name string) string {
	var text string
	if payload := header[name]; payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &text) != nil {
		return ""
	}
	return text
}
