package main

import (
	"os"
	"testing"

	"compactor/internal/testenv"
)

// asProgram makes the test binary behave as the program, so that tests can
// start, signal and kill real processes without another build.
const asProgram = "COMPACTOR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testenv.Main(m)
}
