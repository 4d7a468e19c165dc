package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom/internal/pattern"
)

// Releases is the section "releases": how versions of tools are released.
type Releases struct {
	// Environments are those that exist besides prod and test.
	Environments []string `yaml:"environments,omitempty"`
	// Conflict is what becomes of the version that was active before: deprecated (the
	// default) or draft.
	Conflict string `yaml:"conflict,omitempty"`
	Gates    Gates  `yaml:"gates,omitempty"`
	// Rollback is when a new version is taken back automatically.
	Rollback Rollback `yaml:"rollback,omitempty"`
	// Proposals gives agents the tool code:propose_tool (off).
	Proposals bool `yaml:"proposals,omitempty"`
	// Packages are the rules for packages of functions.
	Packages Packages `yaml:"packages,omitempty"`
}

// Rollback is when a new version is taken back automatically.
type Rollback struct {
	// Automatic takes back a version whose calls fail more often or take longer than those
	// of the version before (on).
	Automatic *bool `yaml:"automatic,omitempty"`
	// Confidence is how sure that must be, from 0.5 to below 1 (0.95).
	Confidence float64 `yaml:"confidence,omitempty"`
	// Slower is how many times longer the median call must take to count (1.5).
	Slower float64 `yaml:"slower,omitempty"`
	// For is how long after its release a version is watched (24h).
	For time.Duration `yaml:"for,omitempty"`
}

// Packages are the rules for packages of functions.
type Packages struct {
	// Build names packages whose code may run to build them, in a sandbox without a network:
	// pypi:NAME is built from its source distribution if it has no wheel, and the install
	// scripts of npm:NAME run (none).
	Build []string `yaml:"build,omitempty"`
	// BuildLimits bound one build.
	BuildLimits BuildLimits `yaml:"build_limits,omitempty"`
}

// BuildLimits bound one build: its time (10m), its memory (2 GiB), its disk (1 GiB) and its
// processes and threads (512).
type BuildLimits struct {
	Timeout time.Duration `yaml:"timeout,omitempty"`
	Memory  int64         `yaml:"memory,omitempty"`
	Disk    int64         `yaml:"disk,omitempty"`
	PIDs    int           `yaml:"pids,omitempty"`
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
	r.Conflict = cmp.Or(r.Conflict, "deprecated")
	r.Rollback.Confidence = cmp.Or(r.Rollback.Confidence, 0.95)
	r.Rollback.Slower = cmp.Or(r.Rollback.Slower, 1.5)
	r.Rollback.For = cmp.Or(r.Rollback.For, 24*time.Hour)
	r.Packages.BuildLimits.Timeout = cmp.Or(r.Packages.BuildLimits.Timeout, 10*time.Minute)
	for _, gate := range []**bool{&r.Gates.Cases, &r.Gates.Compatible, &r.Rollback.Automatic} {
		if *gate == nil {
			on := true
			*gate = &on
		}
	}
}

var buildName = pattern.Lazy(`^(?:pypi:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|npm:(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]*)$`)

var environmentName = pattern.Lazy(`^[a-z][a-z0-9-]{0,31}$`)

func (c checker) checkReleases(r Releases) {
	if b := r.Rollback; b.Confidence < 0.5 || b.Confidence >= 1 {
		c.addProblem("releases.rollback.confidence", fmt.Sprintf("%v is not from 0.5 to below 1", b.Confidence), "for example 0.95")
	}
	if b := r.Rollback; b.Slower < 1 {
		c.addProblem("releases.rollback.slower", fmt.Sprintf("%v is less than 1", b.Slower), "for example 1.5")
	}
	for i, entry := range r.Packages.Build {
		if !buildName().MatchString(entry) {
			c.addProblem(fmt.Sprintf("releases.packages.build[%d]", i), quote(entry)+" names no package", "pypi:NAME or npm:NAME")
		}
	}
	c.requireOneOf("releases.conflict", r.Conflict, "deprecated", "draft")
	for i, name := range r.Environments {
		key := fmt.Sprintf("releases.environments[%d]", i)
		switch {
		case !environmentName().MatchString(name):
			c.addProblem(key, quote(name)+" is not the name of an environment", "for example staging")
		case slices.Contains([]string{"prod", "test", "draft"}, name):
			c.addProblem(key, quote(name)+" exists already", "remove it")
		}
	}
}
