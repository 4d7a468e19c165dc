package catalog

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// A function that a caller passes may read the catalog while somebody changes it. Both
// would wait forever if the catalog held its lock meanwhile.
func TestFunctionsOfCallersMayUseTheCatalog(t *testing.T) {
	t.Parallel()
	c, l := New(Options{}), &Library{}
	register(t, c, "p", tool("a:one"), tool("b:two"))
	l.Set("a", Offer{
		Resources: []source.Resource{resource("file:///x")}, Templates: []source.Template{{URITemplate: "x://{id}"}},
		Prompts: []source.Prompt{{Name: "greet"}}, Skills: []source.Skill{{URI: "skill://a/SKILL.md"}},
	})
	// use changes the catalog and the library, and then reads both.
	use := func() bool {
		c.SetVariants(nil)
		l.Set("b", Offer{})
		_, err := c.Resolve("a:one", nil)
		_, known := l.Source("a")
		return err == nil && known
	}
	entry := func(*Entry) bool { return use() }
	provider := func(string) bool { return use() }
	for name, list := range map[string]func() int{
		"All":            func() int { return len(c.All(entry)) },
		"List":           func() int { page, _ := c.List(ListOptions{View: View{Visible: entry}}); return len(page.Entries) },
		"Namespaces":     func() int { return len(c.Namespaces(entry)) },
		"Resources":      func() int { return len(l.Resources(provider)) },
		"Templates":      func() int { return len(l.Templates(provider)) },
		"Prompts":        func() int { return len(l.Prompts(provider)) },
		"Skills":         func() int { return len(l.Skills(provider)) },
		"SkillProviders": func() int { all, _ := l.SkillProviders("skill://other/SKILL.md", provider); return len(all) },
		"FindResource": func() int {
			_, _, ok := l.FindResource(scopedURI("a", "file:///x"), provider)
			if !ok {
				return 0
			}
			return 1
		},
		"Resolve": func() int {
			_, err := c.Resolve("c:three", entry)
			if toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
				return 0
			}
			return 1
		},
	} {
		found := make(chan int, 1)
		go func() { found <- list() }()
		select {
		case n := <-found:
			if n == 0 {
				t.Errorf("%s found nothing", name)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s holds a lock while it calls its caller's function", name)
		}
	}
}

// describing is a source whose description depends on the catalog.
type describing struct {
	source.Source
	describe func() source.Description
}

func (d describing) Describe() source.Description { return d.describe() }

func TestADescriptionMayUseTheCatalog(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	src := describing{describe: func() source.Description {
		c.SetVariants(nil)
		return source.Description{Title: fmt.Sprintf("one of %d tools", c.Len()), CancelsPromptly: true}
	}}
	set := make(chan error, 1)
	go func() { set <- c.SetProvider("p", src, []toolroom.Tool{tool("a:one")}) }()
	select {
	case err := <-set:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("SetProvider holds a lock while it asks the source for its description")
	}
	if e, err := c.Resolve("a:one", nil); err != nil || !e.CancelsPromptly {
		t.Errorf("the entry lacks what the source says of itself: %+v, %v", e, err)
	}
}
