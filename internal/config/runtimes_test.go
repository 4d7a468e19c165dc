package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/config"
)

func TestARuntimeElsewhereIsConfiguredWholeOrRefused(t *testing.T) {
	t.Parallel()
	const proxmox = `url: "https://h:8006", node: pve, token: "secret://p/t"`
	const inside = `runner: {secret: "secret://r/k"}`
	for _, tt := range []struct{ name, text, problem string }{
		{"a runner", `remote: {url: "https://h:7071", secret: "secret://r/k", ca: ca.pem, cert: c.pem, key: k.pem}`, ""},
		{"a runner without a secret", `remote: {url: "https://h:7071"}`, "remote.secret: a runner's secret must be a secret reference"},
		{"a runner with its secret in plain", `remote: {url: "https://h:7071", secret: hunter2hunter2}`, "remote.secret: a runner's secret must be a secret reference"},
		{"a runner nowhere", `remote: {secret: "secret://r/k"}`, "remote.url: the runner's URL must begin with"},
		{"a certificate without its key", `remote: {url: "https://h", secret: "secret://r/k", cert: c.pem}`, "remote.cert: cert and key must be set together"},
		{"a template", `proxmox_lxc: {` + proxmox + `, template: 9000, ` + inside + `}`, ""},
		{"one container", `proxmox_lxc: {` + proxmox + `, container: 100, port: 8443, ` + inside + `}`, ""},
		{"a template and a container", `proxmox_lxc: {` + proxmox + `, template: 9000, container: 100, ` + inside + `}`, "proxmox_lxc.template: exactly one of template and container must be set"},
		{"neither", `proxmox_lxc: {` + proxmox + `, ` + inside + `}`, "proxmox_lxc.template: exactly one of template and container must be set"},
		{"a token in plain", `proxmox_lxc: {url: "https://h", node: pve, token: "a@pve!b=hunter2", template: 1, ` + inside + `}`, "proxmox_lxc.token: the API token must be a secret reference"},
		{"no node", `proxmox_lxc: {url: "https://h", token: "secret://p/t", template: 1, ` + inside + `}`, "proxmox_lxc.node: the name of the node is missing"},
		{"no secret of the runner inside", `proxmox_lxc: {` + proxmox + `, template: 1}`, "proxmox_lxc.runner.secret: a runner's secret must be a secret reference"},
		{"a cluster", `kubernetes: {kubeconfig: k.yaml, context: c, namespace: tools, runtime_class: gvisor, job: true, start_timeout: 45s}`, ""},
		{"a cluster without a namespace", `kubernetes: {context: production}`, "kubernetes.namespace: the namespace for Pods is missing"},
		{"a policy of images that is none", `kubernetes: {namespace: tools, pull: always}`, "kubernetes.pull: always is not a pull policy"},
		{"too long a start", `kubernetes: {namespace: tools, start_timeout: 5m}`, "kubernetes.start_timeout: it must be at most a minute"},
		{"an address of the runner inside", `proxmox_lxc: {` + proxmox + `, template: 1, runner: {url: "https://h", secret: "secret://r/k"}}`, "proxmox_lxc.runner.url: the address of a container is detected automatically"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("t.yaml", []byte("code: {runtimes: {"+tt.text+"}}"))
			switch {
			case tt.problem == "" && err != nil:
				t.Error(err)
			case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), "code.runtimes."+tt.problem)):
				t.Errorf("got %v, want %s", err, tt.problem)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestTheSettingsOfADriverAreRead(t *testing.T) {
	t.Parallel()
	const text = `code: {runtimes: {programs: {chroot: {command: /bin/chroot-driver, settings: {root: /srv/root, depth: 2, share: 0.5, id: 9007199254740993, "1": [a, {b: true}]}}}}}`
	c, err := config.Parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"root": "/srv/root", "depth": int64(2), "share": 0.5, "id": int64(9007199254740993), "1": []any{"a", map[string]any{"b": true}}}
	if diff := cmp.Diff(want, c.Code.Runtimes.Programs["chroot"].Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if tree, err := config.Redacted(c); err != nil || !strings.Contains(strings.Join(keysOf(tree), " "), "code.runtimes.programs.chroot.settings.1") {
		t.Errorf("%v, %v", tree, err)
	}
	for what, depth := range map[string]string{"a number that JSON has not": ".inf", "one that is no int64": "[9223372036854775808]"} {
		if _, err := config.Parse("t.yaml", []byte(strings.Replace(text, "depth: 2", "depth: "+depth, 1))); err == nil || !strings.Contains(err.Error(), "programs.chroot.settings.depth") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// keysOf returns the paths of all values in a tree.
func keysOf(tree map[string]any) (keys []string) {
	for key, value := range tree {
		keys = append(keys, key)
		if inner, ok := value.(map[string]any); ok {
			for _, below := range keysOf(inner) {
				keys = append(keys, key+"."+below)
			}
		}
	}
	return keys
}
