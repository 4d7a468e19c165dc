package netjail

import (
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/restrict"
)

// WithRules returns a jail that also enforces the policy's rules about files, programs and
// hosts. A program that may use the machine's network has none but a proxy if there is a
// rule about hosts.
func (j Jail) WithRules(rules []toolroom.Effect, v restrict.View) (*Jail, error) {
	binds, err := restrict.Plan(rules, v)
	if err != nil {
		return nil, err
	}
	j.Binds = binds
	hosts := restrict.Hosts(rules)
	switch {
	case len(hosts) == 0:
		return &j, nil
	case slices.Contains(hosts, "*"):
		j.HostNetwork, j.Guard = false, nil
		return &j, nil
	case j.HostNetwork:
		if j.Guard, err = egress.New(egress.Policy{Allow: []string{"0.0.0.0/0", "::/0"}}); err != nil {
			return nil, err
		}
		j.HostNetwork = false
	case j.Guard == nil:
		return &j, nil
	}
	if j.Guard, err = j.Guard.Denying(hosts); err != nil {
		return nil, err
	}
	return &j, nil
}
