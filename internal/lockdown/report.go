package lockdown

// Finding is what the probe found of one rung.
type Finding struct {
	Rung      Rung
	Available bool
	// Detail says how it is held, such as "Landlock ABI 7".
	Detail string
	// Reason says why it is missing, Fix what to do about it.
	Reason, Fix string
}

// Report is what this machine can do, one finding per rung, strongest first.
type Report []Finding

// Find is the finding of a rung.
func (r Report) Find(rung Rung) Finding {
	for _, f := range r {
		if f.Rung == rung {
			return f
		}
	}
	return Finding{Rung: rung, Reason: "there is no such rung", Fix: "name one of ns, net, landlock, seccomp, cgroup"}
}
