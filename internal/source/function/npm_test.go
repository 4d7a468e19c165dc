package function

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAFailureOfNPMIsToldByItsCause(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"npm error code E404\nnpm error 404 Not Found - GET https://r.example/x\nnpm error 404\nnpm error 404  The requested resource 'x@*' could not be found or you do not have permission to access it.\nnpm error 404\nnpm error 404 Note that you can also install from a\nnpm error 404 tarball, folder, http url, or git url.\n":                                                                                                    "E404: Not Found - GET https://r.example/x The requested resource 'x@*' could not be found or you do not have permission to access it.",
		"npm error code ETARGET\nnpm error notarget No matching version found for semver@^99.\nnpm error notarget In most cases you or one of your dependencies are requesting\n":                                                                                                                                                                                                                                                          "ETARGET: No matching version found for semver@^99.",
		"npm error code E401\nnpm error Incorrect or missing password.\nnpm error If you were trying to login, change your password\n":                                                                                                                                                                                                                                                                                                     "E401: Incorrect or missing password.",
		"npm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno ECONNREFUSED\nnpm error FetchError: request to http://127.0.0.1:9/react failed, reason: connect ECONNREFUSED 127.0.0.1:9\nnpm error     at emit (node:events:524:28)\nnpm error     at x (a.js:1:2) {\nnpm error   code: 'ECONNREFUSED',\nnpm error   type: 'system',\nnpm error }\nnpm error\nnpm error If you are behind a proxy\n":                     "ECONNREFUSED: FetchError: request to http://127.0.0.1:9/react failed, reason: connect ECONNREFUSED 127.0.0.1:9",
		"npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error network request to http://n.invalid/react failed, reason: getaddrinfo ENOTFOUND n.invalid\nnpm error network This is a problem related to network connectivity.\n":                                                                                                                                                                                             "ENOTFOUND: request to http://n.invalid/react failed, reason: getaddrinfo ENOTFOUND n.invalid",
		"npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\nnpm error\nnpm error While resolving: tool@0.0.0\nnpm error Found: react@17.0.2\nnpm error node_modules/react\nnpm error   react@\"^17\" from the root project\nnpm error\nnpm error Could not resolve dependency:\nnpm error peer react@\"^18.3.1\" from react-dom@18.3.1\nnpm error\nnpm error Fix the upstream dependency conflict, or retry\n": "ERESOLVE: ERESOLVE unable to resolve dependency tree Found: react@17.0.2 react@\"^17\" from the root project Could not resolve dependency: peer react@\"^18.3.1\" from react-dom@18.3.1",
	} {
		if got := npmReason([]byte(said)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNPMGetsTheVariablesThatItsConfigurationNames(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte("//r.example/:_authToken=${CORP_TOKEN}\n//s.example/:_auth=${GONE?}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := NPMVariables([]string{"HOME=" + home, "CORP_TOKEN=a=b", "OTHER=c"}); !slices.Equal(got, []string{"CORP_TOKEN=a=b"}) {
		t.Error(got)
	}
}
