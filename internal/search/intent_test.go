package search_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/search"
)

// gitCommands are those that git names in its help, with its texts.
var gitCommands = map[string]string{
	"clone": "Clone a repository into a new directory", "init": "Create an empty Git repository or reinitialize an existing one",
	"add": "Add file contents to the index", "mv": "Move or rename a file, a directory, or a symlink",
	"restore": "Restore working tree files", "rm": "Remove files from the working tree and from the index",
	"bisect": "Use binary search to find the commit that introduced a bug", "diff": "Show changes between commits, commit and working tree, etc",
	"grep": "Print lines matching a pattern", "log": "Show commit logs", "show": "Show various types of objects",
	"status": "Show the working tree status", "branch": "List, create, or delete branches", "commit": "Record changes to the repository",
	"merge": "Join two or more development histories together", "rebase": "Reapply commits on top of another base tip",
	"reset": "Reset current HEAD to the specified state", "switch": "Switch branches", "tag": "Create, list, delete or verify a tag object signed with GPG",
	"fetch": "Download objects and refs from another repository", "pull": "Fetch from and integrate with another repository or a local branch",
	"push": "Update remote refs along with associated objects",
}

func gitDocuments() []search.Document {
	var docs []search.Document
	for name, text := range gitCommands {
		d := search.Document{ID: "git:" + name, Namespace: "git", Name: name, Description: "git " + name + ": " + text, Tags: []string{"cli"}}
		switch name {
		case "log", "diff", "show", "status", "grep":
			d.ReadOnly = true
		case "rm", "reset", "push", "rebase":
			d.Destructive = true
		}
		docs = append(docs, d)
	}
	return docs
}

// issueOperations are some of the GitHub REST API (MIT licence), with their texts.
var issueOperations = []search.Document{
	{ID: "gh:issues_create", Title: "Create an issue", Description: "Any user with pull access to a repository can create an issue. If [issues are disabled in the repository](https://docs.github.com/articles/disabling-issues/), the API returns a `410 Gone` status."},
	{ID: "gh:reactions_create-for-issue", Title: "Create reaction for an issue", Description: "Create a reaction to an [issue](https://docs.github.com/rest/issues/issues#get-an-issue)."},
	{ID: "gh:reactions_create-for-issue-comment", Title: "Create reaction for an issue comment", Description: "Create a reaction to an [issue comment](https://docs.github.com/rest/issues/comments#get-an-issue-comment)."},
	{ID: "gh:issues_list-for-repo", Title: "List repository issues", Description: "List issues in a repository. Only open issues will be listed.", ReadOnly: true},
	{ID: "gh:issues_create-comment", Title: "Create an issue comment", Description: "You can use the REST API to create comments on issues and pull requests."},
	{ID: "gh:orgs_create-issue-type", Title: "Create issue type for an organization", Description: "Create a new issue type for an organization."},
	{ID: "gh:repos_get", Title: "Get a repository", Description: "The `parent` and `source` objects are present when the repository is a fork.", ReadOnly: true},
}

func TestAQuestionFindsWhatAnswersItBeforeWhatChangesSomething(t *testing.T) {
	t.Parallel()
	docs := gitDocuments()
	for _, d := range issueOperations {
		d.Namespace, d.Name = "gh", d.ID[len("gh:"):]
		docs = append(docs, d)
	}
	ix := newIndex(docs...)
	for query, want := range map[string]string{
		"commit history":                  "git:log",
		"git history":                     "git:log",
		"history of commits":              "git:log",
		"show the history":                "git:log",
		"create an issue in a repository": "gh:issues_create",
		"list the issues of a repository": "gh:issues_list-for-repo",
		"record changes":                  "git:commit",
		"push commits":                    "git:push",
	} {
		hits := ix.Search(query, search.Options{})
		if len(hits) == 0 || hits[0].ID != want {
			t.Errorf("%q finds %+v first, not %s", query, hits[:min(3, len(hits))], want)
		}
	}
}

func TestOfToolsThatFitAlikeThoseThatChangeNothingComeFirst(t *testing.T) {
	t.Parallel()
	ix := newIndex(
		search.Document{ID: "s:ant", Name: "ant", Description: "pets", Destructive: true},
		search.Document{ID: "s:bee", Name: "bee", Description: "pets"},
		search.Document{ID: "s:cat", Name: "cat", Description: "pets", ReadOnly: true},
	)
	order := func(query string) (ids string) {
		for _, h := range ix.Search(query, search.Options{}) {
			ids += h.ID[2:3]
		}
		return ids
	}
	if got := order("pets"); got != "cba" {
		t.Errorf("a question finds %s", got)
	}
	if got := order("delete pets"); got != "abc" { // equal scores, by id
		t.Errorf("who asks for a change finds %s", got)
	}
}

func TestASourceThatTheQueryNamesComesFirst(t *testing.T) {
	t.Parallel()
	ix := newIndex(
		search.Document{ID: "a:list", Namespace: "a", Name: "list_things", Description: "List the things of docker and others."},
		search.Document{ID: "docker:list", Namespace: "docker", Name: "list_things", Description: "List the things of docker and others."},
	)
	hits := ix.Search("docker things", search.Options{})
	ix.Delete("docker:list")
	if after := ix.Search("docker things", search.Options{}); len(hits) != 2 || hits[0].ID != "docker:list" || len(after) != 1 {
		t.Errorf("found %+v, then %+v", hits, after)
	}
}

// Keywords are guesses. A source of the user that has such a word as its name is meant.
func TestKeywordsGiveWayToASourceOfThatName(t *testing.T) {
	t.Parallel()
	memory := search.Document{ID: "memory:search", Namespace: "memory", Name: "search", Description: "Search your memory: find what a user told you earlier about a topic, in the notes and facts.", Keywords: []string{"notes", "my-notes", "in-notes", "find-in-notes", "search-notes"}, ReadOnly: true}
	grep := search.Document{ID: "notes:grep", Namespace: "notes", Name: "grep", Description: "Search the files below a folder for a text, and return the lines that contain it."}
	var ix search.Index
	ix.Put(memory, search.Document{ID: "notes2:other", Namespace: "notes2", Name: "other", Description: "Lists a folder."})
	first := func() string { return ix.Search("find a text in my notes", search.Options{})[0].ID }
	if got := first(); got != "memory:search" {
		t.Errorf("without the source: %s", got)
	}
	ix.Put(grep)
	if got := first(); got != "notes:grep" {
		t.Errorf("with the source: %s", got)
	}
	ix.Delete("notes:grep")
	if got := first(); got != "memory:search" {
		t.Errorf("without it again: %s", got)
	}
}
