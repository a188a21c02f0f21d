// Package config has what the command line tool says to the web pages.
package config

type Config struct {
	Host                string
	Port                int
	TemporalGRPCAddress string
	EnableUI            bool
	PublicPath          string
	UIAssetPath         string
	Codec               Codec
	CORS                CORS
	HideLogs            bool
}

type Codec struct{ Endpoint string }

type CORS struct{ CookieInsecure bool }
