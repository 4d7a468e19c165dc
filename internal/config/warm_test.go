package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/config"
)

func TestOnlyTheProcessSandboxStartsAheadUnlessTheConfigSaysSo(t *testing.T) {
	t.Parallel()
	standard := []string{"standard"}
	for _, tt := range []struct {
		name, text, runtime string
		want                config.Warm
	}{
		{"nothing said", "{}", "process", config.Warm{Size: 1, Profiles: standard}},
		{"nothing said of a container", "{}", "docker", config.Warm{Profiles: standard}},
		{"a container", "{warm: {docker: {size: 3, max_age: 5m, profiles: [hardened]}}}", "docker", config.Warm{Size: 3, MaxAge: 5 * time.Minute, Profiles: []string{"hardened"}}},
		{"an age alone", "{warm: {process: {max_age: 5m}}}", "process", config.Warm{Size: 1, MaxAge: 5 * time.Minute, Profiles: standard}},
		{"none", "{warm: {process: {size: -1}}}", "process", config.Warm{Profiles: standard}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("t.yaml", []byte("code: "+tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Code.WarmOf(tt.runtime)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAPoolThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, problem string }{
		{"dokcer: {size: 1}", "dokcer: there is no runtime"},
		{"host: {size: 1}", "host: there is no runtime"},
		{"docker: {size: 1000}", "docker.size: 1000 sandboxes"},
		{"docker: {size: 1, max_age: -1s}", "docker.max_age: it is negative"},
		{"docker: {size: 1, profiles: [loose]}", "docker.profiles: loose is no profile"},
	} {
		if _, err := config.Parse("t.yaml", []byte("code: {warm: {"+tt.text+"}}")); err == nil || !strings.Contains(err.Error(), "code.warm."+tt.problem) {
			t.Errorf("%s: got %v, want %s", tt.text, err, tt.problem)
		}
	}
}
