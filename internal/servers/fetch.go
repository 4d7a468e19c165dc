package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
)

// Public is the list of the public MCP registry.
const Public = "https://registry.modelcontextprotocol.io/v0.1/servers?version=latest&limit=100"

// Limits of a list.
const (
	maxPage    = 16 << 20
	maxPages   = 500
	maxServers = 50_000
)

// maxTime bounds the time for a whole list.
const maxTime = 15 * time.Minute

// maxList bounds the size of a whole list, in bytes. Tests lower it.
var maxList = 256 << 20

// Fetch reads a list, with its further pages, through a guard that also permits its own host.
// page is called before each page but the first. The digest is that of all pages as they came.
func Fetch(ctx context.Context, from string, guard *egress.Guard, page func(servers int)) (*Fetched, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not the URL of a list", from)
	}
	client := &http.Client{Transport: guard.WithOwn(u).Transport(), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	f := &Fetched{From: from, At: time.Now().UTC()}
	sum, size := sha256.New(), 0
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	for range maxPages {
		body, err := get(ctx, client, u.String())
		if err != nil {
			return nil, err
		}
		if size += len(body); size > maxList {
			return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the list has more than %d bytes", maxList)
		}
		sum.Write(body)
		list, next, err := parsePage(body)
		if err != nil {
			return nil, err
		}
		f.Servers = append(f.Servers, list...)
		if len(f.Servers) > maxServers {
			return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the list has more than %d servers", maxServers)
		}
		if next == "" {
			f.Digest = hex.EncodeToString(sum.Sum(nil))
			return f, nil
		}
		page(len(f.Servers))
		query := u.Query()
		query.Set("cursor", next)
		u.RawQuery = query.Encode()
	}
	return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the list has more than %d pages", maxPages)
}

// get returns the body of one page.
func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		if e := toolroom.AsError(err); e.Code == toolroom.CodeDenied { // by the egress guard
			return nil, e
		}
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the list of servers cannot be fetched: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "%s answered %s", request.URL.Host, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	if err == nil && len(body) > maxPage {
		err = fmt.Errorf("a page has more than %d bytes", maxPage)
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the list of servers cannot be read: %w", err)
	}
	return body, nil
}
