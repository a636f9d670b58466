//go:build !nodev

package devserver

import (
	"context"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/server/api/visibilityservice/v1"
	"go.temporal.io/server/chasm"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/namespace"
	"go.temporal.io/server/common/persistence/visibility/manager"
	visibility "go.temporal.io/server/common/persistence/visibility/store"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute"
)

// unlisted is the server's store for searching workflows: it keeps nothing, and says so to
// whoever searches. Approvals are listed by Holdpoint's own database; a list of workflows
// would be a second one, with twenty indexes for each workflow's start and end.
type unlisted struct{}

// unlistedName is how the server knows it.
const unlistedName = "unlisted"

func (unlisted) NewVisibilityStore(config.CustomDatastoreConfig, searchattribute.Provider, searchattribute.MapperProvider, namespace.Registry,
	*chasm.Registry, resolver.ServiceResolver, log.Logger, metrics.Handler,
) (visibility.VisibilityStore, error) {
	return unlisted{}, nil
}

func (unlisted) Close()               {}
func (unlisted) GetName() string      { return unlistedName }
func (unlisted) GetIndexName() string { return unlistedName }

func (unlisted) ValidateCustomSearchAttributes(attributes map[string]any) (map[string]any, error) {
	return attributes, nil
}

func (unlisted) RecordWorkflowExecutionStarted(context.Context, *visibility.InternalRecordWorkflowExecutionStartedRequest) error {
	return nil
}

func (unlisted) RecordWorkflowExecutionClosed(context.Context, *visibility.InternalRecordWorkflowExecutionClosedRequest) error {
	return nil
}

func (unlisted) UpsertWorkflowExecution(context.Context, *visibility.InternalUpsertWorkflowExecutionRequest) error {
	return nil
}

func (unlisted) DeleteWorkflowExecution(context.Context, *manager.VisibilityDeleteWorkflowExecutionRequest) error {
	return nil
}

func (unlisted) ListWorkflowExecutions(context.Context, *manager.ListWorkflowExecutionsRequestV2) (*visibility.InternalListExecutionsResponse, error) {
	return nil, errUnlisted()
}

func (unlisted) CountWorkflowExecutions(context.Context, *manager.CountWorkflowExecutionsRequest) (*visibility.InternalCountExecutionsResponse, error) {
	return nil, errUnlisted()
}

func (unlisted) GetWorkflowExecution(context.Context, *manager.GetWorkflowExecutionRequest) (*visibility.InternalGetWorkflowExecutionResponse, error) {
	return nil, errUnlisted()
}

func (unlisted) ListChasmExecutions(context.Context, *visibilityservice.ListChasmExecutionsRequest) (*visibility.InternalListExecutionsResponse, error) {
	return nil, errUnlisted()
}

func (unlisted) CountChasmExecutions(context.Context, *visibilityservice.CountChasmExecutionsRequest) (*visibility.InternalCountExecutionsResponse, error) {
	return nil, errUnlisted()
}

func (unlisted) AddSearchAttributes(context.Context, *manager.AddSearchAttributesRequest) error {
	return errUnlisted()
}

func errUnlisted() error {
	return serviceerror.NewUnimplemented("this server of holdpoint dev keeps no list of workflows; each can be described by its id, which is its approval's")
}
