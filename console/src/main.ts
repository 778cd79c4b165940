/** The console's start: theme first, so that nothing flashes, then the page. */
import { mount } from "svelte";
import App from "./App.svelte";
import { applyTheme } from "./lib/theme.svelte";
import "./styles/tokens.css";
import "./styles/base.css";

applyTheme();
const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no #app");
mount(App, { target });
