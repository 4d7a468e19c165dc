package microvm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Bodies of requests to Firecracker's API (its src/firecracker/swagger/firecracker.yaml).
type (
	machineConfig struct {
		VCPUs  int   `json:"vcpu_count"`
		Memory int64 `json:"mem_size_mib"`
	}
	bootSource struct {
		Kernel string `json:"kernel_image_path"`
		Initrd string `json:"initrd_path"`
		Args   string `json:"boot_args"`
	}
	drive struct {
		ID       string `json:"drive_id"`
		Path     string `json:"path_on_host"`
		Root     bool   `json:"is_root_device"`
		ReadOnly bool   `json:"is_read_only"`
	}
	vsock struct {
		CID  int    `json:"guest_cid"`
		Path string `json:"uds_path"`
	}
	action struct {
		Type string `json:"action_type"`
	}
	vmState struct {
		State string `json:"state"`
	}
	snapshotCreate struct {
		Type   string `json:"snapshot_type"`
		State  string `json:"snapshot_path"`
		Memory string `json:"mem_file_path"`
	}
	snapshotLoad struct {
		State  string        `json:"snapshot_path"`
		Memory memoryBackend `json:"mem_backend"`
		Resume bool          `json:"resume_vm"`
	}
	memoryBackend struct {
		Type string `json:"backend_type"`
		Path string `json:"backend_path"`
	}
)

// firecrackerAPI sends HTTP requests over a Unix socket.
type firecrackerAPI struct{ client *http.Client }

func newFirecrackerAPI(socket string) *firecrackerAPI {
	return &firecrackerAPI{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// ping succeeds once the API answers.
func (a *firecrackerAPI) ping(ctx context.Context) error {
	return a.do(ctx, http.MethodGet, "/version", nil)
}

func (a *firecrackerAPI) put(ctx context.Context, path string, body any) error {
	return a.do(ctx, http.MethodPut, path, body)
}

func (a *firecrackerAPI) patch(ctx context.Context, path string, body any) error {
	return a.do(ctx, http.MethodPatch, path, body)
}

func (a *firecrackerAPI) do(ctx context.Context, method, path string, body any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("firecracker: %s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	if response.StatusCode < 300 {
		return nil
	}
	var fault struct {
		Message string `json:"fault_message"`
	}
	const longest = 64 << 10
	if err := json.NewDecoder(io.LimitReader(response.Body, longest)).Decode(&fault); err != nil || fault.Message == "" {
		fault.Message = response.Status
	}
	return fmt.Errorf("firecracker: %s %s: %s", method, path, fault.Message)
}
