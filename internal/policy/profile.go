package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/nearest"
)

// The built-in profiles. Each contains the ones before it.
const (
	ProfileMinimal   = "minimal"
	ProfileMessaging = "messaging"
	ProfileCoding    = "coding"
	ProfileFull      = "full"
)

// builtinProfiles returns the profiles of the reference policy (Flynn), extended with the
// built-in tools that it lacks: searching files counts as reading, undoing as writing, and git
// belongs to coding.
func builtinProfiles() map[string][]string {
	minimal := []string{"file.read", "file.list", "file.search", "web.fetch", "system.info"}
	messaging := append(slices.Clone(minimal),
		"memory.*", "web.search", "web.search.news", "gmail.*", "calendar.*", "docs.*", "drive.*",
		"tasks.list", "tasks.get", "tasks.lists",
		"cron.list", "cron.trigger", "cron.create", "cron.pause", "cron.resume", "cron.delete",
		"minio.share", "minio.ingest", "minio.sync",
		"k8s.pods", "k8s.deployments", "k8s.logs",
		"agent.delegate", "agents.list", "council.run")
	coding := append(slices.Clone(messaging),
		"file.write", "file.edit", "file.patch", "file.undo", "shell.exec",
		"process.start", "process.status", "process.output", "process.write", "process.kill", "process.list",
		"git.status", "git.diff", "git.log", "git.show", "git.blame", "git.add", "git.commit", "git.branch",
		"screen.capture", "camera.capture", "browser.*")
	return map[string][]string{
		ProfileMinimal:   minimal,
		ProfileMessaging: messaging,
		ProfileCoding:    coding,
		ProfileFull:      {"*"},
	}
}

// builtinGroups returns the groups of the reference policy.
func builtinGroups() map[string][]string {
	return map[string][]string{
		"fs":      {"file.*"},
		"runtime": {"shell.*", "process.*"},
		"web":     {"web.*"},
		"memory":  {"memory.*"},
		"gmail":   {"gmail.*"},
		"gcal":    {"calendar.*"},
		"gdocs":   {"docs.*"},
		"gdrive":  {"drive.*"},
		"gtasks":  {"tasks.*"},
		"cron":    {"cron.*"},
		"minio":   {"minio.*"},
		"k8s":     {"k8s.*"},
	}
}

// didYouMean suggests the known name nearest to name, or lists all known names.
func didYouMean[T any](name string, known map[string]T) string {
	names := slices.Sorted(maps.Keys(known))
	if meant, ok := nearest.Of(name, names); ok {
		return " (did you mean " + meant + "?)"
	}
	if len(names) == 0 {
		return ""
	}
	return ": there are " + strings.Join(names, ", ")
}

func quote(name string) string { return strconv.Quote(name) }
