package config

import "time"

// Kubernetes says in which cluster programs run, in Pods.
type Kubernetes struct {
	// Kubeconfig is the file that says where the API server is, Context which of
	// its clusters (as kubectl finds them; in a Pod, the cluster around it).
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Context    string `yaml:"context,omitempty"`
	// Namespace is where Pods are made; empty is no cluster.
	Namespace string `yaml:"namespace,omitempty"`
	// Image is the default image, and GuestImage where the guest comes from if
	// Image does not have it.
	Image      string `yaml:"image,omitempty"`
	GuestImage string `yaml:"guest_image,omitempty"`
	// Pull is never (the default) or missing.
	Pull string `yaml:"pull,omitempty"`
	// RuntimeClass of the Pods (the cluster's default).
	RuntimeClass string `yaml:"runtime_class,omitempty"`
	// NodeSelector are the labels of nodes that may run Pods.
	NodeSelector map[string]string `yaml:"node_selector,omitempty"`
	// Job makes Pods by Jobs, which the cluster itself removes after their end.
	Job bool `yaml:"job,omitempty"`
	// StartTimeout is how long a Pod may take to run (30 s).
	StartTimeout time.Duration `yaml:"start_timeout,omitempty"`
}

func (c check) kubernetes(path string, k Kubernetes) {
	if k.Namespace == "" && (k.Kubeconfig != "" || k.Context != "" || k.RuntimeClass != "" || k.Job) {
		c.problem(path+".namespace", "Pods are made in a namespace", "make one for programs alone, and name it here")
	}
	if k.Pull != "" && k.Pull != "never" && k.Pull != "missing" {
		c.problem(path+".pull", k.Pull+" is no policy", "write never or missing")
	}
	if k.StartTimeout < 0 || k.StartTimeout > time.Minute {
		c.problem(path+".start_timeout", "a Pod has up to a minute to start", "write for example 45s")
	}
}
