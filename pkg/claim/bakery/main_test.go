package bakery_test

import (
	"testing"

	"compactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
