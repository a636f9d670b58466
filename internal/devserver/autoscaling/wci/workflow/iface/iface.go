// Package iface names what the Temporal server says to a worker controller:
// see package client.
package iface

import (
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
)

// ValidationResultFailed is the result of a check of compute that failed.
const ValidationResultFailed ValidationResult = "failed"

type (
	// ComputeProviderType is where workers run.
	ComputeProviderType string

	// ScalingAlgorithmType is how their number is found.
	ScalingAlgorithmType string

	// ValidationResult is the result of a check of compute.
	ValidationResult string

	// ComputeProviderSpec is a place where workers run.
	ComputeProviderSpec struct {
		ProviderType  ComputeProviderType
		Config        *common.Payload
		NexusEndpoint string
	}

	// ScalingAlgorithmSpec is a way to find the number of workers.
	ScalingAlgorithmSpec struct {
		ScalingAlgorithm ScalingAlgorithmType
		Config           *common.Payload
	}

	// ScalingGroupSpec is a group of workers.
	ScalingGroupSpec struct {
		TaskTypes []enums.TaskQueueType
		Compute   ComputeProviderSpec
		Scaling   *ScalingAlgorithmSpec
	}

	// ScalingGroupSpecUpdate changes a group of workers.
	ScalingGroupSpecUpdate struct {
		Spec       ScalingGroupSpec
		UpdateMask []string
	}

	// WorkerControllerInstanceSpec is all groups of workers of one version.
	WorkerControllerInstanceSpec struct {
		ScalingGroupSpecs map[string]ScalingGroupSpec
	}

	// ValidationStatus is the last check of compute.
	ValidationStatus struct {
		Status             ValidationResult
		ErrMessage         string
		LastValidationTime time.Time
	}

	// WorkerControllerInstance is what the server reads of a controller.
	WorkerControllerInstance struct {
		Spec             *WorkerControllerInstanceSpec
		ValidationStatus *ValidationStatus
	}
)
