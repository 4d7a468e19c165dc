//go:build integration

package integration

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/test/double"
)

func TestOpenAPIServiceAsASource(t *testing.T) {
	service := httptest.NewServer(double.NewPetstore())
	t.Cleanup(service.Close)
	r := newRoom(t, nil)
	r.toolroom(0, "init", "--force")
	r.toolroom(0, "sources", "add", "petstore", "--openapi", service.URL+"/openapi.yaml", "--base-url", service.URL+"/v1", "--header", "X-Api-Key="+double.PetstoreKey)

	if got := string(r.callJSON(0, "petstore:getPet", `{"id": 9007199254740993}`).Value); !strings.Contains(got, "9007199254740993") || !strings.Contains(got, "Tom") {
		t.Errorf("the pet is %s", got)
	}
	if out := r.toolroom(0, "call", "petstore:createPet", "name=Ada", "species=cat", "weight=3.5"); !strings.Contains(out.stdout, "Ada") {
		t.Errorf("createPet printed %s", out.stdout)
	}
	if got := string(r.callJSON(0, "petstore:listPets", `{}`).Value); !strings.Contains(got, "Wanda") || !strings.Contains(got, "Ada") {
		t.Errorf("the pets are %s", got)
	}
	r.callJSON(toolroom.ExitInvalidArguments, "petstore:createPet", `{"name": "Ada", "species": "horse"}`)
	if result := r.callJSON(toolroom.ExitFailed, "petstore:getPet", `{"id": 12345}`); !strings.Contains(result.Error.Message, "12345") {
		t.Errorf("the error is %+v", result.Error)
	}
	if out := r.toolroom(0, "search", "add a pet", "--json"); !strings.Contains(out.stdout, "petstore:createPet") {
		t.Errorf("the search found %s", out.stdout)
	}
}
