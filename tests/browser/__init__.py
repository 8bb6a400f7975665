"""The pages in a real browser: the Chromium of the machine, headless, driven by Playwright."""
