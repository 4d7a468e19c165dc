package config

import (
	"fmt"
	"regexp"
	"slices"
)

// Releases is the section "releases": how versions of tools are released.
type Releases struct {
	// Environments are those that exist besides prod and test.
	Environments []string `yaml:"environments,omitempty"`
	// Conflict is what becomes of the version that was active before: deprecated (the
	// default) or draft.
	Conflict string `yaml:"conflict,omitempty"`
	Gates    Gates  `yaml:"gates,omitempty"`
	// Packages are the rules for packages of functions.
	Packages Packages `yaml:"packages,omitempty"`
}

// Packages are the rules for packages of functions.
type Packages struct {
	// AcceptInstallScripts names npm packages that are installed although they have install
	// scripts. The scripts do not run.
	AcceptInstallScripts []string `yaml:"accept_install_scripts,omitempty"`
}

// Gates must be passed by a release to any environment but test.
type Gates struct {
	// Cases requires that the saved cases are green on the version (on).
	Cases *bool `yaml:"cases,omitempty"`
	// Compatible requires that callers of the served version do not break (on).
	Compatible *bool `yaml:"compatible,omitempty"`
	// SecondPerson requires that another person than the author releases (off).
	SecondPerson bool `yaml:"second_person,omitempty"`
}

func (r *Releases) fill() {
	fill(&r.Conflict, "deprecated")
	for _, gate := range []**bool{&r.Gates.Cases, &r.Gates.Compatible} {
		if *gate == nil {
			on := true
			*gate = &on
		}
	}
}

var environmentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (c check) releases(r Releases) {
	c.oneOf("releases.conflict", r.Conflict, "deprecated", "draft")
	for i, name := range r.Environments {
		key := fmt.Sprintf("releases.environments[%d]", i)
		switch {
		case !environmentName.MatchString(name):
			c.problem(key, quote(name)+" is not the name of an environment", "for example staging")
		case slices.Contains([]string{"prod", "test", "draft"}, name):
			c.problem(key, quote(name)+" exists already", "remove it")
		}
	}
}
