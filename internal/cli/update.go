package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/toolroom/toolroom"
)

// latestRelease is GitHub's address of the newest release, without drafts and prereleases. See
// https://docs.github.com/rest/releases/releases#get-the-latest-release.
const latestRelease = "https://api.github.com/repos/toolroom/toolroom/releases/latest"

const (
	// updateTime limits the request, and maxRelease the size of the response in bytes.
	updateTime = 15 * time.Second
	maxRelease = 1 << 20
)

// releaseInfo is the part of GitHub's response that is used.
type releaseInfo struct {
	Tag       string    `json:"tag_name"`
	URL       string    `json:"html_url"`
	Published time.Time `json:"published_at"`
}

func (a *cli) updateCommand() *cobra.Command {
	var check bool
	var url string
	c := &cobra.Command{
		Use:   "update --check",
		Short: "Check whether there is a newer release",
		Long: `Ask which release is the newest, and compare it with this one. Nothing is downloaded
or changed, and nothing but the request is sent. The answer is that of GitHub, or of
TOOLROOM_RELEASES_URL, in the same form.`,
		Example: `  toolroom update --check
  toolroom update --check --json`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !check {
				return usage("toolroom update --check", "Toolroom does not update itself: update it the way it was installed")
			}
			address := cmp.Or(url, a.ReleasesURL, latestRelease)
			if !isURL(address) {
				return usage("toolroom update --check --url https://HOST/PATH", "%q is not an http or https URL", address)
			}
			done := a.screen.showActivity("asking which release is the newest")
			latest, err := fetchLatestRelease(c.Context(), address, a.Version)
			done()
			if err != nil {
				return err
			}
			newer, known := isNewer(latest.Tag, a.Version)
			if a.asJSON {
				return a.screen.json(struct {
					Version   string    `json:"version"`
					Latest    string    `json:"latest"`
					Newer     *bool     `json:"newer"` // null for a build that is no release
					URL       string    `json:"url,omitempty"`
					Published time.Time `json:"published,omitzero"`
				}{a.Version, latest.Tag, boolIfKnown(newer, known), latest.URL, latest.Published})
			}
			switch {
			case !known:
				return a.screen.printf("the newest release is %s; this is %s, which is no release: %s\n", latest.Tag, a.Version, latest.URL)
			case newer:
				return a.screen.printf("there is a newer release: %s (this is %s): %s\n", latest.Tag, a.Version, latest.URL)
			}
			return a.screen.printf("this is the newest release, %s\n", a.Version)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "check only (required: update installs nothing)")
	c.Flags().StringVar(&url, "url", "", "address of the newest release (TOOLROOM_RELEASES_URL)")
	a.jsonFlag(c, "print JSON")
	return c
}

// boolIfKnown returns value, or nil if it is not known.
func boolIfKnown(value, known bool) *bool {
	if !known {
		return nil
	}
	return &value
}

// isNewer reports whether tag is a later version than version, if both are versions.
func isNewer(tag, version string) (newer, known bool) {
	tag, version = "v"+strings.TrimPrefix(tag, "v"), "v"+strings.TrimPrefix(version, "v")
	if !semver.IsValid(tag) || !semver.IsValid(version) {
		return false, false
	}
	return semver.Compare(tag, version) > 0, true
}

func fetchLatestRelease(ctx context.Context, url, version string) (r releaseInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return r, usage("toolroom update --check --url URL", "%s", err)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "toolroom/"+version)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "cannot ask for the newest release: %w", err).WithHint("try again later, or see the page of the project")
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return r, toolroom.Errorf(toolroom.CodeNotFound, "there is no release at %s", url)
	case http.StatusForbidden, http.StatusTooManyRequests:
		return r, toolroom.Errorf(toolroom.CodeRateLimited, "%s answers no more requests from here for now (%s)", req.URL.Host, resp.Status).WithHint("try again in an hour")
	default:
		return r, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s answered %s", url, resp.Status).WithHint("try again later")
	}
	body, err := readAll(resp.Body, url, maxRelease)
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	if err != nil || r.Tag == "" {
		return r, toolroom.Errorf(toolroom.CodeUpstreamError, "%s does not answer with a release as GitHub does", url)
	}
	return r, nil
}
