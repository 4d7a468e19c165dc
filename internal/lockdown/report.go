package lockdown

// Finding is the probe's result for one layer.
type Finding struct {
	Layer     Layer
	Available bool
	// Detail says how the layer is enforced, such as "Landlock ABI 7".
	Detail string
	// Reason says why the layer is missing, and Fix what to do about it.
	Reason, Fix string
}

// Report holds one finding per layer, strongest first.
type Report []Finding

// Find returns the finding of a layer.
func (r Report) Find(layer Layer) Finding {
	for _, f := range r {
		if f.Layer == layer {
			return f
		}
	}
	return Finding{Layer: layer, Reason: "there is no such isolation layer", Fix: "use one of ns, net, landlock, seccomp, cgroup"}
}
