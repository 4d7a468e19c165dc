package config

import "time"

// Kubernetes configures the cluster whose Pods run programs.
type Kubernetes struct {
	// Kubeconfig is the file with the API server's address, and Context selects one of its
	// clusters (default: as kubectl finds them; in a Pod, its own cluster).
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Context    string `yaml:"context,omitempty"`
	// Namespace is the namespace of the Pods; empty disables Kubernetes.
	Namespace string `yaml:"namespace,omitempty"`
	// Image is the default image. GuestImage provides the guest if Image does not contain
	// it.
	Image      string `yaml:"image,omitempty"`
	GuestImage string `yaml:"guest_image,omitempty"`
	// Pull is never (the default) or missing.
	Pull string `yaml:"pull,omitempty"`
	// RuntimeClass of the Pods (the cluster's default).
	RuntimeClass string `yaml:"runtime_class,omitempty"`
	// NodeSelector is the label selector of the nodes that may run Pods.
	NodeSelector map[string]string `yaml:"node_selector,omitempty"`
	// Job creates Pods by Jobs, which the cluster itself removes after they end.
	Job bool `yaml:"job,omitempty"`
	// StartTimeout limits the start of a Pod (30 s).
	StartTimeout time.Duration `yaml:"start_timeout,omitempty"`
}

func (c checker) checkKubernetes(path string, k Kubernetes) {
	if k.Namespace == "" && (k.Kubeconfig != "" || k.Context != "" || k.RuntimeClass != "" || k.Job) {
		c.addProblem(path+".namespace", "the namespace for Pods is missing", "create one for programs alone, and name it here")
	}
	if k.Pull != "" && k.Pull != "never" && k.Pull != "missing" {
		c.addProblem(path+".pull", k.Pull+" is not a pull policy", "write never or missing")
	}
	if k.StartTimeout > time.Minute {
		c.addProblem(path+".start_timeout", "it must be at most a minute", "write for example 45s")
	}
}
