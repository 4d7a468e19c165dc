package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/config"
)

func TestOnlyTheProcessSandboxStartsAheadUnlessTheConfigSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, runtime string
		size                int
		profiles            []string
	}{
		{"nothing said", "{}", "process", 1, []string{"standard"}},
		{"nothing said of a container", "{}", "docker", 0, []string{"standard"}},
		{"a container", "{warm: {docker: {size: 3, profiles: [hardened]}}}", "docker", 3, []string{"hardened"}},
		{"an age alone", "{warm: {process: {max_age: 5m}}}", "process", 1, []string{"standard"}},
		{"none", "{warm: {process: {size: 0}}}", "process", 0, []string{"standard"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("t.yaml", []byte("code: "+tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if n := c.Code.WarmSize(tt.runtime); n != tt.size {
				t.Errorf("%d wait, want %d", n, tt.size)
			}
			if diff := cmp.Diff(tt.profiles, c.Code.WarmProfiles(tt.runtime)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAMisspelledRuntimeNamesTheNearestOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"builtin: {shell: {runtime: dokcer}}": "did you mean docker?",
		"builtin: {shell: {runtime: hots}}":   "did you mean host?",
		"builtin: {shell: {runtime: xyz}}":    "known: process, gvisor,",
		"code: {warm: {dokcer: {size: 1}}}":   "did you mean docker?",
	} {
		if _, err := config.Parse("t.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAPoolThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, problem string }{
		{"dokcer: {size: 1}", "dokcer: no runtime"},
		{"host: {size: 1}", "host: no runtime"},
		{"docker: {size: 1000}", "docker.size: 1000 is not a pool size"},
		{"docker: {size: 1, max_age: -1s}", `docker.max_age: the duration "-1s" is negative`},
		{"docker: {size: 1, profiles: [loose]}", "docker.profiles: loose is not a profile"},
	} {
		if _, err := config.Parse("t.yaml", []byte("code: {warm: {"+tt.text+"}}")); err == nil || !strings.Contains(err.Error(), "code.warm."+tt.problem) {
			t.Errorf("%s: got %v, want %s", tt.text, err, tt.problem)
		}
	}
}
