// Package client takes the place of the Temporal server's worker controller,
// which starts and stops workers on Kubernetes, AWS and Google Cloud. The
// server imports it and has no switch that leaves it out, and a quarter of the
// build of "holdpoint dev" is the clients of these clouds. Here there is no
// controller: versions of workers have no compute, and cannot be given any.
//
// It has the names that the server uses, and no others: when a new version of
// the server needs more, this does not compile.
package client

import (
	"context"

	"go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

// Module provides the client.
var Module = fx.Provide(func() Client { return Client{} })

// Client answers for a controller that is not there.
type Client struct{}

var (
	errNone    = serviceerror.NewNotFound("this server has no worker controller")
	errMissing = serviceerror.NewUnimplemented("this server has no worker controller")
)

// DescribeWorkerControllerInstance finds nothing, as where no compute was ever set.
func (Client) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deployment.WorkerDeploymentVersion) (*iface.WorkerControllerInstance, []byte, error) {
	return nil, nil, errNone
}

// UpdateWorkerControllerInstance refuses.
func (Client) UpdateWorkerControllerInstance(context.Context, *namespace.Namespace, *deployment.WorkerDeploymentVersion, []byte, string, map[string]iface.ScalingGroupSpecUpdate, []string) (*iface.WorkerControllerInstance, error) {
	return nil, errMissing
}

// ValidateWorkerControllerInstanceSpec refuses.
func (Client) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deployment.WorkerDeploymentVersion, string, map[string]iface.ScalingGroupSpecUpdate, []string) error {
	return errMissing
}

// DeleteWorkerControllerInstance has nothing to delete, which is well.
func (Client) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deployment.WorkerDeploymentVersion, string) error {
	return nil
}
